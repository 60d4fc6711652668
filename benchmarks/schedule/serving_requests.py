"""Requests of ServeGen's traces, as a file for ``mirage schedule compare --demand``.

    python benchmarks/schedule/serving_requests.py total_rate_10min.csv.gz --model m-mid --share 0.25 -o requests.csv

ServeGen publishes rates of requests of production services for 14 days, in windows of ten minutes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path


def main() -> None:
    """Write the rates of one model, multiplied by a share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rates", type=Path, help="A CSV, gzip: category,model,window_start_s,rate_rps.")
    parser.add_argument("--model", default="m-mid")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--pool", default="inference")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    with gzip.open(options.rates, "rt", encoding="utf-8") as text:
        rates = {
            int(row["window_start_s"]): float(row["rate_rps"])
            for row in csv.DictReader(text)
            if row["model"] == options.model
        }
    rows = [f"{start_s},{options.pool},{options.share * rate:.6g}" for start_s, rate in sorted(rates.items())]
    options.out.write_text("\n".join(["time_s,pool,requests_per_s", *rows, ""]))


if __name__ == "__main__":
    main()
