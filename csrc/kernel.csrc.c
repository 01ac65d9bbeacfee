#include "fstcrf.h"
#include "checksum.h"
