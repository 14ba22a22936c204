import { converge } from "../../kubernetes/converge.ts";
import { ApiError } from "../../kubernetes/api-server.ts";
import { RecordTakenError } from "../types.ts";
import type { DnsRecordState, HostedDns, Side } from "../types.ts";
import { extension } from "./names.ts";
import type { ShootSeed } from "./namespace.ts";
import { deleteObject, operate } from "./operations.ts";
import type { Operated, Waits } from "./operations.ts";

/** Of Gardener's DNSRecord (extensions/v1alpha1/types_dnsrecord.go). */
interface DnsRecord extends Operated {
  readonly spec: {
    readonly type: string;
    readonly name: string;
    readonly recordType: "A" | "AAAA" | "CNAME" | "TXT";
    readonly values: readonly string[];
    readonly ttl?: number;
  };
}

/** What the API server of extensions takes for a record without one (types_dnsrecord.go). */
const DEFAULT_TTL_SECONDS = 120;
/** Provider whose `migrate` deletes the record instead of letting go of it (provider-local, dnsrecord/actuator.go). */
const DELETES_WHEN_MIGRATED = "local";

/**
 * The records of a Shoot as a move changes them. They are the source's until they are handed over; an attempt that
 * died half-way through that may have left some at each side.
 */
export function hostedDns(
  { source, destination }: Readonly<Record<Side, DnsRecords>>,
  isDestinationReachable: (signal: AbortSignal) => Promise<boolean>,
  deadlineMs: number,
): HostedDns {
  return {
    async inspect(values, signal) {
      const found = [...(await source.read(signal))];
      const others = found.filter(([, state]) => !isSame(state.values, values));
      return {
        ttlSeconds: Math.max(0, ...found.map(([, { ttlSeconds }]) => ttlSeconds)),
        refusals: [
          ...(found.length === 0 ? [`there is no ${source.describe()}`] : []),
          ...others.map(
            ([name, state]) =>
              `${source.describe(name)} is ${state.values.join(", ")}, not ${values.join(", ")}: correct it`,
          ),
        ],
      };
    },
    async replace(from, to, signal) {
      const waits = { deadlineMs, signal };
      const there = async (): Promise<number> => {
        // One that is lost must not keep the name at it; what it may have is handed over again.
        const isSources = (await source.read(signal)).size > 0;
        if (isSources && !(await isDestinationReachable(signal))) return 0;
        return await destination.replace(from, to, waits);
      };
      const counts = await eachDespiteOthers([async () => await source.replace(from, to, waits), there]);
      if (counts.every((count) => count === 0)) throw new RecordTakenError(source.describe(), from, []);
    },
    handOver: async (signal) => await source.handOver(destination, { deadlineMs, signal }),
  };
}

/** One after the other, all of them also when a record is somebody else's. @throws the first of those errors at the end */
async function eachDespiteOthers<T>(steps: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  let taken: RecordTakenError | undefined;
  for (const step of steps) {
    try {
      results.push(await step());
    } catch (error) {
      if (!(error instanceof RecordTakenError)) throw error;
      taken ??= error;
    }
  }
  if (taken) throw taken;
  return results;
}

/** The control plane's DNSRecords: `<shoot>-internal` and, with a domain of its own, `<shoot>-external`. */
export class DnsRecords {
  readonly #seed: ShootSeed;
  readonly #path: string;
  readonly #names: readonly string[];

  constructor(seed: ShootSeed, shoot: string) {
    this.#seed = seed;
    this.#path = extension(seed.namespace.name, "dnsrecords");
    this.#names = [`${shoot}-internal`, `${shoot}-external`];
  }

  /** The records that there are, by name. */
  async read(signal: AbortSignal): Promise<ReadonlyMap<string, DnsRecordState>> {
    const found = new Map<string, DnsRecordState>();
    for (const name of this.#names) {
      const record = await this.#find(name, signal);
      if (record) found.set(name, stateOf(record));
    }
    return found;
  }

  /**
   * Overwrites each record's values, which were `expected`, and waits until its controller has written them.
   * @returns how many records there are.
   * @throws RecordTakenError when a record has neither the old values nor the new; the others are overwritten.
   */
  async replace(
    expected: readonly string[],
    { values, ttlSeconds }: DnsRecordState,
    waits: Waits,
  ): Promise<number> {
    const names = [...(await this.read(waits.signal)).keys()];
    const overwrite = async (name: string) => {
      await this.#reconcile(name, waits, (record) => {
        const found = stateOf(record);
        if (!isSame(found.values, values) && !isSame(found.values, expected)) {
          throw new RecordTakenError(this.describe(name), expected, found.values);
        }
        const isDone = isSame(found.values, values) && found.ttlSeconds === ttlSeconds;
        return isDone ? undefined : { values, ttl: ttlSeconds };
      });
    };
    await eachDespiteOthers(names.map((name) => async () => await overwrite(name)));
    return names.length;
  }

  /**
   * Makes another seed's controller responsible for the records, which resolve all the time: it takes them with the
   * same values first, and only then does this seed's let go of them.
   */
  async handOver(to: DnsRecords, waits: Waits): Promise<void> {
    for (const name of this.#names) {
      const record = await this.#find(name, waits.signal);
      if (record === undefined) continue;
      await to.#take(record, waits);
      await this.#letGo(record, waits);
    }
  }

  /** One of them for messages, or all. */
  describe(name = this.#names.join(", ")): string {
    return `DNSRecord ${name} at ${this.#seed.api.name}`;
  }

  async #find(name: string, signal: AbortSignal): Promise<DnsRecord | undefined> {
    return await this.#seed.api.find<DnsRecord>({ path: `${this.#path}/${name}`, signal });
  }

  async #reconcile(
    name: string,
    waits: Waits,
    change: (record: DnsRecord) => Partial<DnsRecord["spec"]> | undefined,
  ): Promise<void> {
    await operate(this.#seed.api, { path: this.#path, name }, "reconcile", waits, (object) => {
      const spec = change(object as DnsRecord);
      return spec && { spec };
    });
  }

  async #take({ metadata: { name, labels }, spec }: DnsRecord, waits: Waits): Promise<void> {
    const body = {
      apiVersion: "extensions.gardener.cloud/v1alpha1",
      kind: "DNSRecord",
      metadata: { name, labels, annotations: { "gardener.cloud/operation": "restore" } },
      spec,
    };
    try {
      await this.#seed.api.json({ method: "POST", path: this.#path, body, signal: waits.signal });
    } catch (error) {
      if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
      await this.#reconcileWith(name, spec, waits);
    }
    await operate(this.#seed.api, { path: this.#path, name }, "restore", waits);
  }

  /** An earlier attempt has made it: it must not have gone its own way since. */
  async #reconcileWith(name: string, { values, ttl }: DnsRecord["spec"], { signal }: Waits): Promise<void> {
    await converge<DnsRecord>(
      this.#seed.api,
      `${this.#path}/${name}`,
      ({ spec }) => {
        const isEqual = isSame(spec.values, values) && spec.ttl === ttl;
        return isEqual ? undefined : { spec: { values, ...(ttl !== undefined && { ttl }) } };
      },
      signal,
    );
  }

  /** Without finalizers the deletion of a DNSRecord is no work for anybody (extensions, dnsrecord/reconciler.go). */
  async #letGo({ metadata: { name }, spec }: DnsRecord, waits: Waits): Promise<void> {
    const record = { path: this.#path, name };
    const shallow = spec.type === DELETES_WHEN_MIGRATED;
    if (!shallow) await operate(this.#seed.api, record, "migrate", waits);
    await deleteObject(this.#seed.api, record, waits, true);
  }
}

function stateOf({ spec }: DnsRecord): DnsRecordState {
  return { values: spec.values, ttlSeconds: spec.ttl ?? DEFAULT_TTL_SECONDS };
}

function isSame(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && [...some].sort().join(" ") === [...others].sort().join(" ");
}
