#include "fstcrf.h"
