import { parse } from "yaml";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge } from "../../kubernetes/converge.ts";
import { list } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { CLAIM, holderOf, missingEpoch, raising } from "../claim.ts";
import type { Claim } from "../claim.ts";
import { ClaimedError } from "../types.ts";
import { IGNORE, LIVE_MIGRATE, OPERATION, garden, seedsOfGarden } from "./names.ts";
import type { GardenerLayout } from "./names.ts";
import type { Condition } from "./operations.ts";

/** Of Gardener's Shoot (core/v1beta1, types_shoot.go), as far as moves care. */
export interface Shoot extends KubeObject {
  readonly spec: {
    readonly seedName?: string;
    readonly controlPlane?: { readonly highAvailability?: object };
  };
  readonly status?: {
    readonly seedName?: string;
    readonly technicalID?: string;
    readonly hibernated?: boolean;
    readonly lastOperation?: { readonly type: string; readonly state: string };
    readonly credentials?: {
      readonly rotation?: Readonly<Record<string, { readonly phase?: string } | undefined>>;
    };
    readonly liveMigration?: { readonly conditions?: readonly Condition[] };
  };
}

interface GardenerSeed extends KubeObject {
  readonly spec: { readonly provider: { readonly type: string }; readonly backup?: object };
  readonly status?: { readonly gardener?: { readonly version: string } };
}

/** Steps of a live migration that a Shoot's status tells of (core/v1beta1, ShootLiveMigration...). */
export type LiveMigrationStep =
  | "SourceEtcdPreparedForPeerJoin"
  | "DestinationEtcdPeersJoined"
  | "MigrateExtensionsNeededBeforeKubeAPIServer"
  | "DestinationKubeAPIServerReady"
  | "MigrateDNSRecords"
  | "EtcdMigrationComplete"
  | "SourceSeedCleanup"
  | "MigrationCompleted";

/** The Shoot in the garden cluster: what holds the claim, says where the control plane is, and shows the progress. */
export class GardenShoot {
  readonly #api: ApiServer;
  readonly #layout: GardenerLayout;
  readonly #claim: Claim;
  readonly #path: string;

  constructor(api: ApiServer, layout: GardenerLayout, claim: Claim) {
    this.#api = api;
    this.#layout = layout;
    this.#claim = claim;
    this.#path = `${garden(layout.project, "shoots")}/${layout.shoot}`;
  }

  async find(signal: AbortSignal): Promise<Shoot | undefined> {
    return await this.#api.find<Shoot>({ path: this.#path, signal });
  }

  /**
   * Claims the Shoot, and in the same write keeps gardenlets away from it. `live-migrate` is intent only until the
   * Shoot is bound (plugin/pkg/shoot/validator, validateLiveMigrationPrerequisites).
   * @throws ClaimedError
   */
  async claim(signal: AbortSignal): Promise<void> {
    const { move, epoch } = this.#claim;
    const wanted = { [CLAIM]: move, [IGNORE]: "true", [LIVE_MIGRATE]: "true" };
    await converge<Shoot>(
      this.#api,
      this.#path,
      (shoot) => {
        const holder = holderOf(shoot);
        if (holder !== undefined && holder !== move) throw new ClaimedError(this.#what, holder);
        const { annotations = {} } = shoot.metadata;
        const raised = missingEpoch(shoot, epoch, this.#what);
        const complete = Object.entries(wanted).every(([name, value]) => annotations[name] === value);
        const isDone = complete && Object.keys(raised).length === 0;
        return isDone ? undefined : { metadata: { annotations: { ...raised, ...wanted } } };
      },
      signal,
    );
  }

  /** @throws ClaimedError, SupersededError */
  async requireClaim(signal: AbortSignal): Promise<void> {
    const change = (shoot: Shoot) => {
      this.#requireHeld(shoot);
      return raising(shoot, this.#claim.epoch, this.#what);
    };
    await converge<Shoot>(this.#api, this.#path, change, signal);
  }

  /**
   * Gives the Shoot back to gardenlets.
   * @throws Error while its spec and its status name different seeds: the source's gardenlet would then begin
   *   Gardener's own migration, which stops the API server (ShouldPrepareShootForMigration).
   */
  async release(signal: AbortSignal): Promise<void> {
    await converge<Shoot>(
      this.#api,
      this.#path,
      (shoot) => {
        const { spec, status } = shoot;
        const holder = holderOf(shoot);
        // An attempt of this move that wakes up after its end must not take the claim.
        if (holder === undefined) return raising(shoot, this.#claim.epoch, this.#what);
        if (holder !== this.#claim.move) return undefined;
        const raised = missingEpoch(shoot, this.#claim.epoch, this.#what);
        if (status?.seedName !== undefined && spec.seedName !== status.seedName) {
          throw new Error(
            `${this.#what} is bound to ${spec.seedName} but runs at ${status.seedName}: released now, it would be migrated with downtime`,
          );
        }
        const own = { [CLAIM]: null, [IGNORE]: null, [LIVE_MIGRATE]: null };
        // Nothing else raises the generation, which is all that a gardenlet looks at (controller/shoot/shoot/add.go).
        return { metadata: { annotations: { ...raised, ...own, [OPERATION]: "reconcile" } } };
      },
      signal,
    );
  }

  /**
   * Makes the destination's seed responsible for the Shoot. First where it is to run, which only the subresource
   * `binding` may change, and then where it runs: between the two no gardenlet acts, because the Shoot is ignored.
   */
  async bind(signal: AbortSignal): Promise<void> {
    const { destination } = this.#layout.seeds;
    const same = (shoot: Shoot) => {
      this.#requireHeld(shoot);
      if (shoot.metadata.annotations?.[IGNORE] !== "true")
        throw new Error(`${this.#what} is not ignored by gardenlets any more`);
    };
    const shoot = await this.#api.json<Shoot>({ path: this.#path, signal });
    same(shoot);
    if (shoot.spec.seedName !== destination) {
      const body = { ...shoot, spec: { ...shoot.spec, seedName: destination } };
      await this.#api.json({ method: "PUT", path: `${this.#path}/binding`, body, signal });
    }
    await converge<Shoot>(
      this.#api,
      this.#path,
      (found) => {
        same(found);
        if (found.spec.seedName !== destination)
          throw new Error(`${this.#what} is bound to ${found.spec.seedName}, not to ${destination}`);
        return found.status?.seedName === destination ? undefined : { status: { seedName: destination } };
      },
      signal,
      "/status",
    );
  }

  /** Shows the progress where Gardener's own live migration would show it. */
  async mark(
    type: LiveMigrationStep,
    status: "True" | "False",
    message: string,
    signal: AbortSignal,
  ): Promise<void> {
    await converge<Shoot>(
      this.#api,
      this.#path,
      (shoot) => {
        this.#requireHeld(shoot);
        const all = shoot.status?.liveMigration?.conditions ?? [];
        if (all.some((known) => known.type === type && known.status === status)) return undefined;
        const now = new Date().toISOString();
        const reason = status === "True" ? "Succeeded" : "Undone";
        const times = { lastTransitionTime: now, lastUpdateTime: now };
        const others = all.filter((known) => known.type !== type);
        return {
          status: { liveMigration: { conditions: [...others, { type, status, reason, message, ...times }] } },
        };
      },
      signal,
      "/status",
    );
  }

  /** Why the garden does not tell of the Shoot, with the fix; undefined when it does. */
  async whySilent(signal: AbortSignal): Promise<string | undefined> {
    const { name } = this.#layout;
    try {
      if ((await this.find(signal)) !== undefined) return undefined;
      return `${this.#api.name} has no ${this.#what}: check controlPlanes.${name}.shoot, and project, which is the namespace of the Shoot's project`;
    } catch (error) {
      signal.throwIfAborted();
      return `${this.#api.name} at ${this.#api.url} does not tell of ${this.#what} (${(error as Error).message}): check controlPlanes.${name}.garden`;
    }
  }

  /** Reasons that forbid a live move of this Shoot, in Gardener's own terms. */
  async refusals(source: ApiServer, destination: ApiServer, signal: AbortSignal): Promise<string[]> {
    const { project, seeds, namespace } = this.#layout;
    const shoot = await this.find(signal);
    if (shoot === undefined) return [`${this.#api.name} has no ${this.#what}`];
    const found: string[] = [];
    const { status = {}, spec } = shoot;
    const holder = holderOf(shoot);
    if (holder !== undefined)
      found.push(
        `${this.#what} is claimed by the move ${holder}: wait for its end; reset it where it was terminated`,
      );
    if (spec.seedName !== seeds.source || status.seedName !== seeds.source)
      found.push(
        `${this.#what} is on ${status.seedName} and bound to ${spec.seedName}, not on ${seeds.source}`,
      );
    if (status.technicalID !== namespace)
      found.push(
        `${this.#what} has the technical id ${status.technicalID}, not ${namespace}: set controlPlanes.${this.#layout.name}.namespace to it`,
      );
    if (spec.controlPlane?.highAvailability === undefined)
      found.push(`${this.#what} is not highly available: set spec.controlPlane.highAvailability`);
    if (status.hibernated === true) found.push(`${this.#what} is hibernated: wake it up`);
    const { type, state } = status.lastOperation ?? { type: "no operation", state: "" };
    if (state !== "Succeeded")
      found.push(`${this.#what}: its last operation is ${type} ${state}: wait for its success`);
    for (const [what, rotation] of Object.entries(status.credentials?.rotation ?? {})) {
      if (rotation?.phase !== undefined && rotation.phase !== "Completed")
        found.push(`${this.#what}: the rotation of ${what} is in phase ${rotation.phase}: complete it`);
    }
    found.push(...(await this.#seedRefusals(signal)));
    if (project !== "garden") {
      for (const seed of [source, destination]) {
        if (!(await heedsIgnore(seed, signal)))
          found.push(
            `the gardenlet of ${seed.name} does not heed ${IGNORE}: set controllers.shoot.respectSyncPeriodOverwrite in its configuration`,
          );
      }
    }
    return found;
  }

  async #seedRefusals(signal: AbortSignal): Promise<string[]> {
    const { seeds } = this.#layout;
    const find = async (name: string) =>
      await this.#api.find<GardenerSeed>({ path: `${seedsOfGarden}/${name}`, signal });
    const [source, destination] = [await find(seeds.source), await find(seeds.destination)];
    if (source === undefined || destination === undefined)
      return [
        `${this.#api.name} has no Seed ${source ? seeds.destination : seeds.source}: name it under seeds as the garden does`,
      ];
    const found: string[] = [];
    const same = (what: string, of: (seed: GardenerSeed) => string | undefined) => {
      const [here, there] = [of(source), of(destination)];
      if (here !== there || here === undefined)
        found.push(
          `${what} of the seeds differ: ${seeds.source} has ${here}, ${seeds.destination} has ${there}`,
        );
    };
    same("the providers", ({ spec }) => spec.provider.type);
    same("the gardenlets", ({ status }) => status?.gardener?.version);
    for (const { metadata, spec } of [source, destination])
      if (spec.backup === undefined) found.push(`Seed ${metadata.name} has no backups: set spec.backup`);
    return found;
  }

  /** @throws ClaimedError, SupersededError */
  #requireHeld(shoot: Shoot): void {
    const holder = holderOf(shoot);
    if (holder !== this.#claim.move) throw new ClaimedError(this.#what, holder ?? "nobody");
    missingEpoch(shoot, this.#claim.epoch, this.#what);
  }

  get #what(): string {
    return `Shoot ${this.#layout.project}/${this.#layout.shoot}`;
  }
}

/**
 * Whether a gardenlet leaves ignored Shoots alone. Outside the project `garden` it does only when it is told to
 * (pkg/utils/gardener, ShouldIgnoreShoot), in the configuration that its Deployment mounts.
 */
async function heedsIgnore(seed: ApiServer, signal: AbortSignal): Promise<boolean> {
  const path = "/api/v1/namespaces/garden/configmaps";
  const { items } = await list<KubeObject & { data?: Record<string, string> }>(seed, { path }, signal);
  const texts = items
    .filter(({ metadata }) => metadata.name.startsWith("gardenlet-configmap"))
    .map(({ data }) => data?.["config.yaml"] ?? "");
  return texts.length > 0 && texts.every(saysSo);
}

function saysSo(text: string): boolean {
  const config = parse(text) as {
    controllers?: { shoot?: { respectSyncPeriodOverwrite?: boolean } };
  } | null;
  return config?.controllers?.shoot?.respectSyncPeriodOverwrite === true;
}
