/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases and fallback: one cell, nodes that take units ahead from it, and clocks that run.
 *
 * In a window the server grants LIMIT units, leased ones included, and has at most
 * OVERSHOOT leased units outstanding.  A node uses what it leased without asking, returns
 * what it does not need, may be cut off (then it grants its share of the limit), and may
 * crash with what it holds.  Returns may arrive after the lease has expired: those must be
 * dropped, or units would be there twice.
 *
 * Time is cut into windows, and a lease ends with the window after the one that it was
 * taken in at the latest (a window's length after it was taken).  Both, the server and the
 * node, go by their own clocks: the node counts from when it asked, so it is never later.
 *
 *   asserted, in every window:
 *     admitted by leases and by the server  <= LIMIT + OVERSHOOT
 *     admitted by the share of each node    <= LIMIT / NODES
 */
#ifndef NODES
#define NODES 2
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
#ifndef OVERSHOOT
#define OVERSHOOT 1
#endif
#ifndef WINDOWS
#define WINDOWS 4
#endif
#define NONE 255

byte window = 0;                /* the present one */
byte granted = 0;               /* of LIMIT, by the server in this window */
byte admitted = 0;              /* requests that went in this window, shares apart */

/* The server's record of each node's lease: units that count as outstanding. */
byte record_units[NODES];
byte record_until[NODES];       /* NONE: no lease */

/* What each node has. */
byte units[NODES];
byte until[NODES];              /* NONE: no lease */
bool cut_off[NODES];
byte share_used[NODES];

/* Returns on their way: units of the lease that was good until then. */
byte returning[NODES];
byte returning_until[NODES];

inline forget(node) {
  record_until[node] = NONE;
  record_units[node] = 0
}

inline outstanding(sum) {
  sum = 0;
  for (i : 0 .. NODES - 1) {
    if
    :: record_until[i] != NONE && record_until[i] >= window -> sum = sum + record_units[i]
    :: else
    fi
  }
  i = 0
}

inline admit() {
  admitted++;
  assert(admitted <= LIMIT + OVERSHOOT)
}

/* The window ends: what the server granted drains, what is leased stays. */
active proctype clock() {
  do
  :: window < WINDOWS ->
     atomic {
       window++;
       granted = 0;
       admitted = 0;
       byte n;
       for (n : 0 .. NODES - 1) {
         share_used[n] = 0;
         /* The node's end of a lease is never after the server's. */
         if
         :: until[n] != NONE && until[n] < window -> until[n] = NONE; units[n] = 0
         :: else
         fi;
         /* What is over counts as nothing: told here, so that fewer states differ. */
         if
         :: record_until[n] != NONE && record_until[n] < window -> forget(n)
         :: else
         fi
       }
       n = 0
     }
  :: else -> break
  od
}

proctype node(byte me) {
  byte i;
  byte sum;
  do
  :: window >= WINDOWS -> break

  /* A unit that is there already. */
  :: atomic { until[me] != NONE && units[me] > 0 -> units[me]--; admit() }

  /* The server is asked for one. */
  :: atomic { !cut_off[me] && granted < LIMIT -> granted++; admit() }

  /* A lease; the one before is spent, and is told as ended first. */
  :: atomic {
       !cut_off[me] && units[me] == 0 && returning[me] == 0 && granted < LIMIT ->
       forget(me);
       outstanding(sum);
       if
       :: sum < OVERSHOOT ->
          granted++;
          units[me] = 1;
          if
          :: granted < LIMIT && sum + 1 < OVERSHOOT -> granted++; units[me]++
          :: true
          fi;
          record_units[me] = units[me];
          record_until[me] = window + 1;
          /* Asked earlier than granted: at the edge, a window earlier. */
          if
          :: until[me] = window + 1
          :: until[me] = window
          fi
       :: else
       fi;
       sum = 0
     }

  /* The same, with a reply that is lost: the server counts it until it expires. */
  :: atomic {
       !cut_off[me] && units[me] == 0 && returning[me] == 0 && granted < LIMIT ->
       forget(me);
       outstanding(sum);
       if
       :: sum < OVERSHOOT ->
          granted++;
          record_units[me] = 1;
          record_until[me] = window + 1;
          until[me] = NONE
       :: else
       fi;
       sum = 0
     }

  /* Idle: what is unused goes back, and may take its time. */
  :: atomic {
       until[me] != NONE && units[me] > 0 && returning[me] == 0 ->
       returning[me] = units[me];
       returning_until[me] = record_until[me];
       units[me] = 0;
       until[me] = NONE
     }
  /* It arrives; a return of a lease that has expired is dropped. */
  :: atomic {
       returning[me] > 0 ->
       if
       :: record_until[me] != NONE && record_until[me] >= window &&
          record_until[me] == returning_until[me] ->
          forget(me);
          if
          :: granted >= returning[me] -> granted = granted - returning[me]
          :: else -> granted = 0
          fi
       :: else ->
#ifdef LATE_RETURNS_COUNT
          /* What must not be: units that drained long ago come back. */
          if
          :: granted >= returning[me] -> granted = granted - returning[me]
          :: else -> granted = 0
          fi
#else
          skip
#endif
       fi;
       returning[me] = 0;
       returning_until[me] = 0
     }
  /* Or it is lost. */
  :: atomic { returning[me] > 0 -> returning[me] = 0; returning_until[me] = 0 }

  /* Cut off, a node grants its share; what it leased it may use. */
  :: atomic { !cut_off[me] -> cut_off[me] = true }
  :: atomic { cut_off[me] -> cut_off[me] = false }
  :: atomic {
       cut_off[me] && share_used[me] < LIMIT / NODES ->
       share_used[me]++;
       assert(share_used[me] <= LIMIT / NODES)
     }

  /* A crash: it forgets, the server does not. */
  :: atomic { until[me] != NONE -> until[me] = NONE; units[me] = 0 }
  od
}

init {
  byte n;
  atomic {
    for (n : 0 .. NODES - 1) {
      record_until[n] = NONE;
      until[n] = NONE;
      run node(n)
    }
  }
}
