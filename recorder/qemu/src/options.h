/* SPDX-License-Identifier: GPL-2.0-or-later
   The plugin's arguments. */
#ifndef FROSTLINE_OPTIONS_H
#define FROSTLINE_OPTIONS_H

#include "port.h"

typedef struct {
   ULong pipe;         /* inherited write end */
   ULong l1;           /* first level in bytes; power of two, 64 B .. 4 MiB */
   ULong llc;          /* last level in bytes; power-of-two number of sets */
   ULong ways;         /* its associativity, 1 .. 64 */
   ULong epoch;        /* instructions between touched-page sets */
   ULong store_period; /* one store in so many is sampled; 512 .. 32767 */
   ULong fetch;        /* 1: model instruction fetches */
   ULong follow;       /* 1: record forked children */
} FlOptions;

extern FlOptions fl_opt;

/* Each of `argv` is `name=number`. What is wrong, or NULL. */
const char* fl_parse_options(int argc, char** argv);

#endif
