"""Small trees as schedulers of stages, learnt from deep ones and edited by people."""
