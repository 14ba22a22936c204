import { isDeepStrictEqual } from "node:util";
import type { ApiServer } from "../api-server.ts";
import { ANNOTATION } from "./logical-cluster.ts";
import { TOKEN_TYPE } from "./stored-parts.ts";

interface Secret {
  readonly metadata: Readonly<Record<string, unknown>> & {
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly type?: string;
}

/** A Secret of a logical cluster. */
export interface SecretName {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
}

/**
 * The rule that allows a Secret, which both shards store encrypted, to differ as it is stored: what is written again is
 * encrypted anew, and a shard writes service accounts' tokens again, with the certificate authority of its own. Read
 * through the API servers, as of now; undefined when no rule does, or one has no such Secret.
 */
export async function differenceInSecret(
  servers: readonly [ApiServer, ApiServer],
  secret: SecretName,
): Promise<string | undefined> {
  const [one, another] = await Promise.all(servers.map(async (server) => await read(server, secret)));
  if (!one || !another) return undefined;
  if (isDeepStrictEqual(contentOf(one), contentOf(another))) return "the same Secret is encrypted anew";
  const isToken = one.type === TOKEN_TYPE;
  if (!isToken || !isDeepStrictEqual(contentOf(one, "ca.crt"), contentOf(another, "ca.crt")))
    return undefined;
  return "ca.crt of a service account's token holds the certificate authority of the shard";
}

/** From the list of all clusters: where a cluster is not, or its request context is cancelled, it is not served. */
async function read(
  server: ApiServer,
  { cluster, namespace, name }: SecretName,
): Promise<Secret | undefined> {
  const fieldSelector = encodeURIComponent(`metadata.namespace=${namespace},metadata.name=${name}`);
  const { items } = await server.json<{ items: Secret[] }>({
    path: `/clusters/*/api/v1/secrets?fieldSelector=${fieldSelector}`,
  });
  return items.find(({ metadata }) => metadata.annotations?.[ANNOTATION.cluster] === cluster);
}

function contentOf({ metadata, data, ...rest }: Secret, without?: string): unknown {
  const { resourceVersion: _version, managedFields: _fields, ...named } = metadata;
  const left = Object.entries(data ?? {}).filter(([key]) => key !== without);
  return { ...rest, metadata: named, data: Object.fromEntries(left) };
}
