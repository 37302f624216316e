/* SPDX-License-Identifier: Apache-2.0
 *
 * Fallback: nodes that count a limit in one store, and by shares of it while they are cut off.
 *
 * The store admits LIMIT units in any window.  A node that gets no answer grants from a cell
 * of its own, SHARE units in any window.  What the store grants to a node, the node takes
 * from its own cell too, as far as there is room (the mirror): so a share starts debited.
 *
 * An answer may be lost after the store has counted the unit.  The request goes by the share
 * then, and if that refuses it, the unit may be given back, at once or late; a give-back of a
 * unit that is out of the window is dropped.  Nodes are cut off and come back at any time.
 *
 * A window is two ticks, the present one and the one before: index 0 and 1 of what follows.
 *
 *   asserted, of what was admitted in any window:
 *     no unit from the store (all nodes are cut off)             <= NODES * SHARE
 *     a node that lives by the store alone (some are cut off)    <= LIMIT + (NODES - 1) * SHARE
 *     nodes were cut off and none came back                      <= LIMIT + (NODES - 1) * SHARE
 *     always (across the switch there and back)                  <= LIMIT + NODES * SHARE
 *
 * With SHARE = LIMIT / NODES these are L, 2L - L/N, 2L - L/N and 2L.  A limit below NODES has
 * shares of one, and NODES in place of L there.
 */
#ifndef NODES
#define NODES 2
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
#ifndef SHARE
#define SHARE (LIMIT / NODES)
#endif
#ifndef TICKS
#define TICKS 4
#endif

byte now = 0;

/* The store's cell: units that count in it, by the tick that they were granted in. */
byte counted[2];
/* Units that it granted and that went, and of those that went by shares. */
byte by_store[2];
byte by_share[2];

typedef Node {
  bool cut_off;
  byte cell[2];         /* of the share: what the mirror and requests took */
  byte granted[2];      /* by its share */
  byte returning[2];    /* give-backs on their way, by the tick of the grant */
}
Node nodes[NODES];
/* A node had a unit from the store after one from its share, in this window. */
bool came_back[2];

#define ROOM_IN_STORE (counted[0] + counted[1] < LIMIT)
#define ROOM_IN_SHARE(i) (nodes[i].cell[0] + nodes[i].cell[1] < SHARE)

inline check() {
  byte stored = by_store[0] + by_store[1];
  byte shared = by_share[0] + by_share[1];
  byte idle = 0;        /* nodes that granted nothing by their share */
  for (n : 0 .. NODES - 1) {
    if
    :: nodes[n].granted[0] + nodes[n].granted[1] == 0 -> idle++
    :: else
    fi
  }
  assert(stored > 0 || shared <= NODES * SHARE);
  assert(idle == 0 || stored + shared <= LIMIT + (NODES - 1) * SHARE);
  assert(came_back[0] || came_back[1] || stored + shared <= LIMIT + (NODES - 1) * SHARE);
  assert(stored + shared <= LIMIT + NODES * SHARE);
  stored = 0;
  shared = 0;
  idle = 0
}

/* A request that the store does not answer in time: the share decides. */
inline go_by_share(me) {
  nodes[me].cell[0]++;
  nodes[me].granted[0]++;
  by_share[0]++;
  check()
}

active proctype clock() {
  byte n;
  do
  :: now < TICKS ->
     atomic {
       now++;
       counted[1] = counted[0]; counted[0] = 0;
       by_store[1] = by_store[0]; by_store[0] = 0;
       by_share[1] = by_share[0]; by_share[0] = 0;
       came_back[1] = came_back[0]; came_back[0] = false;
       for (n : 0 .. NODES - 1) {
         nodes[n].cell[1] = nodes[n].cell[0]; nodes[n].cell[0] = 0;
         nodes[n].granted[1] = nodes[n].granted[0]; nodes[n].granted[0] = 0;
#ifdef LATE_GIVE_BACKS_COUNT
         /* What must not be: a unit that has left the window is taken from the present one. */
         nodes[n].returning[1] = nodes[n].returning[0] + nodes[n].returning[1];
#else
         nodes[n].returning[1] = nodes[n].returning[0];
#endif
         nodes[n].returning[0] = 0
       }
       n = 0
     }
  :: else -> break
  od
}

proctype node(byte me) {
  byte n;
  do
  :: now >= TICKS -> break

  /* The store grants, and its answer arrives. */
  :: atomic {
       !nodes[me].cut_off && ROOM_IN_STORE ->
       counted[0]++;
       by_store[0]++;
       if
       :: nodes[me].granted[0] + nodes[me].granted[1] > 0 -> came_back[0] = true
       :: else
       fi;
#ifndef NO_MIRROR
       if
       :: ROOM_IN_SHARE(me) -> nodes[me].cell[0]++
       :: else
       fi;
#endif
       check()
     }

  /* It grants, and the answer is lost or late. */
  :: atomic {
       !nodes[me].cut_off && ROOM_IN_STORE ->
       counted[0]++;
       if
       :: ROOM_IN_SHARE(me) -> go_by_share(me)
       :: else ->
          if
          :: nodes[me].returning[0] = nodes[me].returning[0] + 1
          :: true
          fi
       fi
     }

  /* A give-back arrives, or never does. */
  :: atomic { nodes[me].returning[0] > 0 -> nodes[me].returning[0]--;
       if
       :: counted[0] > 0 -> counted[0]--
       :: true
       fi
     }
  :: atomic { nodes[me].returning[1] > 0 -> nodes[me].returning[1]--;
       if
       :: counted[1] > 0 -> counted[1]--
#ifdef LATE_GIVE_BACKS_COUNT
       :: counted[1] == 0 && counted[0] > 0 -> counted[0]--
#endif
       :: true
       fi
     }

  :: atomic { !nodes[me].cut_off -> nodes[me].cut_off = true }
  :: atomic { nodes[me].cut_off -> nodes[me].cut_off = false }
  :: atomic { nodes[me].cut_off && ROOM_IN_SHARE(me) -> go_by_share(me) }
  od;
  n = 0
}

init {
  byte n;
  atomic {
    for (n : 0 .. NODES - 1) {
      run node(n)
    }
  }
}
