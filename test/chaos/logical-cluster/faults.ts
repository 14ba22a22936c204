import type { Server } from "../../../testbed/process.ts";
import { other } from "../../e2e/harness/bed.ts";
import type { ShardName } from "../../e2e/harness/bed.ts";
import { commonFaults, done, until } from "../fault.ts";
import type { Fault, Struck } from "../fault.ts";
import type { ChaosBed } from "./bed.ts";

/** Long enough that calls fail for it, short enough that retries have not become rare. */
const OUTAGE_MS = 6_000;
/** More than a call's deadline and the heartbeats of most steps. */
const LONG_OUTAGE_MS = 20_000;
const SLOW_MS = 50;

type Side = "origin" | "destination";
const SIDES: readonly Side[] = ["origin", "destination"];

function at(bed: ChaosBed, side: Side): ShardName {
  return side === "origin" ? bed.shard : other(bed.shard);
}

async function killed(server: Server): Promise<Struck> {
  await server.kill();
  return { heal: async () => void (await server.start()) };
}

function faultsAt(side: Side): Fault<ChaosBed>[] {
  return [
    {
      name: `leader of the ${side}'s etcd moves`,
      hidden: false,
      async strike(bed) {
        await bed.stores[at(bed, side)].moveLeader();
        return done;
      },
    },
    {
      name: `leader of the ${side}'s etcd killed`,
      hidden: false,
      lastsMs: OUTAGE_MS,
      strike: async (bed) => await killed(await bed.stores[at(bed, side)].leader()),
    },
    {
      name: `history of the ${side}'s etcd compacted`,
      hidden: true,
      async strike(bed) {
        await bed.stores[at(bed, side)].compact();
        return done;
      },
    },
    {
      name: `${side}'s API server killed`,
      hidden: false,
      strike: async (bed) => await killed(bed.testbed.kcp.shard(at(bed, side)).server),
    },
    {
      name: `worker cut off from the ${side}'s etcd`,
      hidden: true,
      lastsMs: OUTAGE_MS,
      strike: async (bed) => await until(bed.toxiproxy.cut(bed.ways(at(bed, side)).store)),
    },
    {
      name: `worker cut off from the whole ${side}`,
      // Inside the fence nobody can lift it meanwhile.
      hidden: false,
      lastsMs: LONG_OUTAGE_MS,
      async strike(bed) {
        const { store, api } = bed.ways(at(bed, side));
        return await until(bed.toxiproxy.cut([...store, api]));
      },
    },
    {
      name: `${SLOW_MS} ms each way to the ${side}'s etcd`,
      hidden: true,
      lastsMs: OUTAGE_MS,
      strike: async (bed) => await until(bed.toxiproxy.delay(bed.ways(at(bed, side)).store, SLOW_MS)),
    },
  ];
}

export const faults: readonly Fault<ChaosBed>[] = [
  ...commonFaults,
  ...SIDES.flatMap(faultsAt),
  {
    name: "destination's etcd is full",
    hidden: false,
    lastsMs: OUTAGE_MS,
    strike: async (bed) => await until(bed.stores[at(bed, "destination")].raiseNoSpace()),
  },
  {
    name: "front-proxy killed",
    hidden: false,
    strike: async (bed) => await killed(bed.testbed.kcp.frontProxy.server),
  },
];
