import { LostRaceError, RefusedError, UnreachableError } from "../../dns/errors.ts";
import type { DnsServer } from "../../dns/names.ts";
import { query } from "../../dns/query.ts";
import { readTsigKey } from "../../dns/tsig.ts";
import { proveUpdatable, replaceAddresses } from "../../dns/update.ts";
import type { UpdateOptions } from "../../dns/update.ts";
import type { Permit } from "../../kubernetes/api-server.ts";
import { addressTypeOf } from "../address-type.ts";
import { RecordTakenError } from "../types.ts";
import type { HostedDns } from "../types.ts";

/** The zone of a record, and who may change it. */
export interface UpdatedZone {
  /** The primary first. */
  readonly servers: readonly DnsServer[];
  readonly zone: string;
  readonly tsig: Parameters<typeof readTsigKey>[0];
}

/** A record that dynamic updates change (RFC 2136), signed with a key (RFC 8945). No seed answers for it. */
export function updatedRecord({ servers, zone, tsig }: UpdatedZone, name: string, permit: Permit): HostedDns {
  const optionsFor = async (values: readonly string[], signal: AbortSignal): Promise<UpdateOptions> => ({
    servers,
    zone,
    name,
    type: addressTypeOf(values),
    tsig: await readTsigKey(tsig),
    signal,
  });

  return {
    async inspect(values, signal) {
      const options = await optionsFor(values, signal);
      try {
        await proveUpdatable({ ...options, values });
        const { ttlSeconds } = await query(servers[0]!, name, options.type, { signal });
        return { ttlSeconds, refusals: [] };
      } catch (error) {
        if (!(error instanceof RefusedError || error instanceof UnreachableError)) throw error;
        const refusal = `dns: the record ${name} cannot be changed with the key ${options.tsig.name} (${error.message}): check dns.tsig in rehome.yaml, the servers' allow-update or update-policy, and that the first server is the primary`;
        return { ttlSeconds: 0, refusals: [refusal] };
      }
    },

    async replace(from, to, signal) {
      try {
        const options = await optionsFor(to.values, signal);
        // What an update compares is the record alone, which an undo makes what it was before.
        await replaceAddresses({
          ...options,
          from: { values: from },
          to,
          permit: async () => await permit(signal),
        });
      } catch (error) {
        if (!(error instanceof LostRaceError)) throw error;
        throw new RecordTakenError(`DNS server ${error.server}: ${name}`, from, error.found);
      }
    },

    handOver: async () => undefined,
  };
}
