/* libnvidia-ml.so.1 of emulated devices: reads the file that device_ledger.py writes, named by MIRAGE_NVML_FILE.
   Layouts of structures and numbers of errors are those of NVIDIA's nvml.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, TOO_SMALL, NO_DRIVER = 9, TIMED_OUT, LOST = 15 };
enum { XID_EVENT = 8, POLL_MS = 20, OWNERS = 64 };

typedef struct { u32 pid, utilisation; u64 start, memory; } Owner;
typedef struct { char name[96], uuid[48], bus[32]; u64 memory, xid, xids, ecc[2]; u32 lost, unused; char gap[32]; Owner owners[OWNERS]; char end[256]; } Device;
typedef struct { char magic[8]; u32 count; char gap[52]; } Header;
typedef struct { Device *devices[64]; u64 reported[64]; int count; } EventSet;
_Static_assert(sizeof(Header) == 64 && sizeof(Device) == 2048, "as in device_ledger.py");

static Header *file;

static Device *at(u32 k) { return (Device *)(file + 1) + k; }

static int runs(const Owner *owner) { /* as start_ticks() in device_ledger.py */
    char path[32], text[1024], *field;
    if (!owner->pid) return 0;
    snprintf(path, sizeof path, "/proc/%u/stat", owner->pid);
    int f = open(path, O_RDONLY);
    if (f < 0) return 0;
    ssize_t n = read(f, text, sizeof text - 1);
    close(f);
    text[n > 0 ? n : 0] = 0;
    if (!(field = strrchr(text, ')')) || field[2] == 'Z' || field[2] == 'X') return 0;
    for (int k = 0; k < 20 && field; k++) field = strchr(field + 1, ' ');
    return field && strtoull(field, 0, 10) == owner->start;
}

#define DEVICE(d) do { if (!file) return UNINITIALIZED; if (!(d)) return INVALID; if ((d)->lost) return LOST; } while (0)
static int copied(char *to, u32 size, const char *from) { if (strlen(from) >= size) return TOO_SMALL; strcpy(to, from); return OK; }

int nvmlInit_v2(void) {
    struct stat facts;
    const char *path = getenv("MIRAGE_NVML_FILE");
    int f = path ? open(path, O_RDONLY) : -1;
    if (file) return close(f), OK;
    if (f < 0 || fstat(f, &facts) || facts.st_size < (off_t)sizeof(Header)) return NO_DRIVER;
    file = mmap(0, facts.st_size, PROT_READ, MAP_SHARED, f, 0);
    close(f);
    if (file == MAP_FAILED || memcmp(file->magic, "MIRGPUS1", 8) || facts.st_size < (off_t)(sizeof(Header) + file->count * sizeof(Device)))
        return file = 0, NO_DRIVER;
    return OK;
}
int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlInitWithFlags(u32 flags) { return (void)flags, nvmlInit_v2(); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) {
    return code == OK ? "Success" : code == UNINITIALIZED ? "Uninitialized" : code == INVALID ? "Invalid Argument" : code == NOT_FOUND ? "Not Found"
        : code == TOO_SMALL ? "Insufficient Size" : code == NO_DRIVER ? "Driver Not Loaded" : code == TIMED_OUT ? "Timeout"
        : code == LOST ? "GPU is lost" : "Not Supported";
}
int nvmlSystemGetDriverVersion(char *to, u32 size) { return copied(to, size, "535.261.03"); }
int nvmlSystemGetNVMLVersion(char *to, u32 size) { return copied(to, size, "12.535.261.03"); }
int nvmlSystemGetCudaDriverVersion_v2(int *to) { return *to = 12020, OK; }
int nvmlDeviceGetCount_v2(u32 *to) { return file ? (*to = file->count, OK) : UNINITIALIZED; }
int nvmlDeviceGetHandleByIndex_v2(u32 k, Device **to) { return !file ? UNINITIALIZED : k < file->count ? (*to = at(k), OK) : INVALID; }
int nvmlDeviceGetHandleByUUID(const char *uuid, Device **to) {
    for (u32 k = 0; file && k < file->count; k++) if (!strcmp(at(k)->uuid, uuid)) return *to = at(k), OK;
    return file ? NOT_FOUND : UNINITIALIZED;
}
int nvmlDeviceGetIndex(Device *d, u32 *to) { DEVICE(d); return *to = (u32)(d - at(0)), OK; }
int nvmlDeviceGetMinorNumber(Device *d, u32 *to) { return nvmlDeviceGetIndex(d, to); }
int nvmlDeviceGetName(Device *d, char *to, u32 size) { DEVICE(d); return copied(to, size, d->name); }
int nvmlDeviceGetUUID(Device *d, char *to, u32 size) { DEVICE(d); return copied(to, size, d->uuid); }

typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char busId[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *d, Pci *to) {
    DEVICE(d);
    *to = (Pci){.bus = (u32)(d - at(0)) + 1};
    snprintf(to->legacy, 16, "%.15s", d->bus + 4);
    return copied(to->busId, 32, d->bus);
}

static u64 used(const Device *d) {
    u64 sum = 0;
    for (int k = 0; k < OWNERS; k++) if (runs(&d->owners[k])) sum += d->owners[k].memory;
    return sum;
}
int nvmlDeviceGetMemoryInfo(Device *d, u64 to[3]) { DEVICE(d); to[0] = d->memory, to[2] = used(d), to[1] = to[0] - to[2]; return OK; }
typedef struct { u32 version; u64 total, reserved, free, used; } Memory;
int nvmlDeviceGetMemoryInfo_v2(Device *d, Memory *to) {
    DEVICE(d);
    to->total = d->memory, to->reserved = 0, to->used = used(d), to->free = to->total - to->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(Device *d, u32 to[2]) {
    DEVICE(d);
    u32 sum = 0;
    for (int k = 0; k < OWNERS; k++) if (runs(&d->owners[k])) sum += d->owners[k].utilisation;
    to[0] = sum < 100 ? sum : 100, to[1] = to[0] / 2;
    return OK;
}
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, u32 *count, Process *to) {
    DEVICE(d);
    u32 n = 0, room = *count;
    for (int k = 0; k < OWNERS; k++) if (runs(&d->owners[k]) && n++ < room) to[n - 1] = (Process){d->owners[k].pid, d->owners[k].memory, ~0u, ~0u};
    return *count = n, n <= room ? OK : TOO_SMALL;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *d, u32 *count, Process *to) { DEVICE(d); return (void)to, *count = 0, OK; }
int nvmlDeviceGetEccMode(Device *d, u32 *now, u32 *pending) { DEVICE(d); return *now = *pending = 1, OK; }
int nvmlDeviceGetTotalEccErrors(Device *d, u32 type, u32 counter, u64 *to) { DEVICE(d); return (void)counter, type < 2 ? (*to = d->ecc[type], OK) : INVALID; }

int nvmlEventSetCreate(EventSet **to) { return (*to = calloc(1, sizeof **to)) ? OK : INVALID; }
int nvmlEventSetFree(EventSet *set) { return free(set), OK; }
int nvmlDeviceGetSupportedEventTypes(Device *d, u64 *to) { DEVICE(d); return *to = XID_EVENT, OK; }
int nvmlDeviceRegisterEvents(Device *d, u64 types, EventSet *set) {
    DEVICE(d);
    if (types & ~(u64)XID_EVENT || set->count == 64) return NOT_SUPPORTED;
    set->reported[set->count] = d->xids, set->devices[set->count++] = d;
    return OK;
}
typedef struct { Device *device; u64 type, data; u32 gpu_instance, compute_instance; } Event;
int nvmlEventSetWait_v2(EventSet *set, Event *to, u32 timeout_ms) {
    for (u32 waited = 0;; waited += POLL_MS, usleep(POLL_MS * 1000)) {
        for (int k = 0; k < set->count; k++) {
            Device *d = set->devices[k];
            u64 xids = *(volatile u64 *)&d->xids;
            if (xids == set->reported[k]) continue;
            set->reported[k] = xids;
            *to = (Event){d, XID_EVENT, *(volatile u64 *)&d->xid, ~0u, ~0u};
            return OK;
        }
        if (waited >= timeout_ms) return TIMED_OUT;
    }
}
int nvmlEventSetWait(EventSet *set, Event *to, u32 timeout_ms) { return nvmlEventSetWait_v2(set, to, timeout_ms); }

/* nvidia-smi requests an internal table of functions, with its size first, and prints N/A where one is not emulated. */
static int not_emulated(void) { return NOT_SUPPORTED; }
int nvmlInternalGetExportTable(void ***to, const void *id) {
    static void *table[256] = {(void *)sizeof table};
    for (int k = 1; k < 256; k++) table[k] = (void *)not_emulated;
    return (void)id, *to = table, OK;
}
#define NOT_EMULATED(name) int name(void) { return NOT_SUPPORTED; }
NOT_EMULATED(nvmlDeviceGetComputeMode) NOT_EMULATED(nvmlDeviceGetDisplayActive) NOT_EMULATED(nvmlDeviceGetEnforcedPowerLimit)
NOT_EMULATED(nvmlDeviceGetFanSpeed) NOT_EMULATED(nvmlDeviceGetFieldValues) NOT_EMULATED(nvmlDeviceGetMaxMigDeviceCount)
NOT_EMULATED(nvmlDeviceGetMigMode) NOT_EMULATED(nvmlDeviceGetPerformanceState) NOT_EMULATED(nvmlDeviceGetPersistenceMode)
NOT_EMULATED(nvmlDeviceGetPowerManagementLimit) NOT_EMULATED(nvmlDeviceGetPowerUsage) NOT_EMULATED(nvmlDeviceGetTemperature)
NOT_EMULATED(nvmlDeviceGetTemperatureV) NOT_EMULATED(nvmlDeviceGetVirtualizationMode) NOT_EMULATED(nvmlDeviceIsMigDeviceHandle)
NOT_EMULATED(nvmlDeviceValidateInforom)
