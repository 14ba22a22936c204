import { removeObject } from "../../../kubernetes/objects.ts";
import type { SeedName } from "../../e2e/control-plane/bed.ts";
import { otherSeed } from "../../e2e/control-plane/bed.ts";
import { cutOff } from "../../e2e/control-plane/cut-off.ts";
import { seedNamespace } from "../../../testbed/control-plane/names.ts";
import { commonFaults, done, until } from "../fault.ts";
import type { Fault } from "../fault.ts";
import type { ControlPlanePlace } from "./kind.ts";

const OUTAGE_MS = 8_000;
const LONG_OUTAGE_MS = 20_000;
const SLOW_MS = 50;

const SIDES = ["source", "destination"] as const;
type Side = (typeof SIDES)[number];

function at({ here }: ControlPlanePlace, side: Side): SeedName {
  return side === "source" ? here : otherSeed(here);
}

/** Its kubelet starts a pod of that name again, where there was one. */
function podKilled(side: Side, pod: string): Fault<ControlPlanePlace>["strike"] {
  return async (place) => {
    const path = `/api/v1/namespaces/${seedNamespace}/pods/${pod}`;
    await removeObject(place.bed.testbed.seeds[at(place, side)].api, path, { gracePeriodSeconds: 0 });
    return done;
  };
}

function faultsAt(side: Side): Fault<ControlPlanePlace>[] {
  return [
    {
      name: `a member of etcd-main dies at the ${side}`,
      hidden: false,
      strike: podKilled(side, "etcd-main-1"),
    },
    {
      name: `a member of etcd-events dies at the ${side}`,
      hidden: false,
      strike: podKilled(side, "etcd-events-0"),
    },
    {
      name: `whole seed of the ${side} cut off`,
      hidden: false,
      lastsMs: LONG_OUTAGE_MS,
      strike: async (place) => await until(cutOff(place.bed, at(place, side))),
    },
    {
      name: `worker cut off from the ${side}`,
      hidden: false,
      lastsMs: OUTAGE_MS,
      async strike(place) {
        const { network } = place.bed.testbed;
        const seed = at(place, side);
        await network.cutOperator(seed);
        return { heal: async () => await network.mendOperator(seed) };
      },
    },
    {
      name: `VPN server dies at the ${side}`,
      hidden: false,
      async strike(place) {
        const { api } = place.bed.testbed.seeds[at(place, side)];
        const path = `/api/v1/namespaces/${seedNamespace}/pods`;
        const { items } = await api.json<{ items: { metadata: { name: string } }[] }>({ path });
        const servers = items.filter(({ metadata }) => metadata.name.startsWith("vpn-seed-server-"));
        for (const { metadata } of servers) {
          await removeObject(api, `${path}/${metadata.name}`, { gracePeriodSeconds: 0 });
        }
        return done;
      },
    },
  ];
}

export const faults: readonly Fault<ControlPlanePlace>[] = [
  ...commonFaults,
  ...SIDES.flatMap(faultsAt),
  {
    name: "seeds cut off from each other",
    hidden: false,
    lastsMs: OUTAGE_MS,
    async strike({ bed }) {
      const wire = bed.testbed.network.wire("seed-a", "seed-b");
      await wire.cut();
      return { heal: async () => await wire.mend() };
    },
  },
  {
    name: `${SLOW_MS} ms each way between the seeds`,
    hidden: false,
    lastsMs: LONG_OUTAGE_MS,
    async strike({ bed }) {
      const wire = bed.testbed.network.wire("seed-a", "seed-b");
      await wire.setDelay(SLOW_MS);
      return { heal: async () => await wire.setDelay(0) };
    },
  },
  {
    name: "DNS primary dies",
    hidden: false,
    lastsMs: OUTAGE_MS,
    async strike({ bed }) {
      const { primary } = bed.testbed.dns;
      await primary.kill();
      return { heal: async () => void (await primary.start()) };
    },
  },
];
