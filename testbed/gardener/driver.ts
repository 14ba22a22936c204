import type { ApiServer } from "../../kubernetes/api-server.ts";
import { driveDruid } from "./driver/druid.ts";
import { driveExtensions } from "./driver/extensions.ts";
import type { DrivenZone } from "./driver/extensions.ts";
import { DriverState } from "./driver/faults.ts";
import { driveGardenlets } from "./driver/gardenlet.ts";
import { driveNodes } from "./driver/nodes.ts";
import type { PodPrograms } from "./running/programs.ts";

/** What answers instead of Gardener's controllers, whose sites a test has not. */
export interface Driver {
  readonly state: DriverState;
  /** The DNS zone that the DNSRecords of both seeds are written to: values by name. */
  readonly zone: Map<string, readonly string[]>;
  stop(): Promise<void>;
}

/** What is real besides the API servers. */
export interface World {
  readonly programs?: PodPrograms | undefined;
  readonly writeRecord?: DrivenZone["write"];
}

/** Drives the garden and both seeds by watches, in the order and with the pauses that controllers have. */
export function startDriver(
  apis: Readonly<Record<"garden" | "source" | "destination", ApiServer>>,
  namespace: string,
  { programs, writeRecord }: World = {},
): Driver {
  const stop = new AbortController();
  const { signal } = stop;
  const state = new DriverState(namespace);
  const zone = { values: new Map<string, readonly string[]>(), write: writeRecord };
  const loops = [
    ...driveGardenlets(apis.garden, state, signal),
    ...(["source", "destination"] as const).flatMap((seed) => [
      ...driveNodes(seed, apis[seed], state, signal, programs),
      ...driveDruid(seed, apis[seed], state, signal),
      ...driveExtensions(seed, apis[seed], zone, state, signal),
    ]),
  ];
  return {
    state,
    zone: zone.values,
    async stop() {
      stop.abort();
      await Promise.allSettled(loops);
    },
  };
}
