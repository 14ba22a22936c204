import { isDeepStrictEqual } from "node:util";
import type { ApiServer } from "../api-server.ts";
import { ANNOTATION } from "./logical-cluster.ts";
import { TOKEN_TYPE } from "./stored-parts.ts";

interface Secret {
  readonly metadata: Readonly<Record<string, unknown>> & {
    readonly namespace: string;
    readonly name: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
}

/** Secrets with the tokens of service accounts as a shard's API server decrypts them, by `<namespace>/<name>`. */
export type Tokens = ReadonlyMap<string, Secret>;

/**
 * The tokens of a logical cluster. From the list of all clusters: where a cluster is not, or its request context is
 * cancelled, it is not served, and that list answers nothing to a selector of names or namespaces (kcp v0.32.3).
 */
export async function readTokens(server: ApiServer, cluster: string): Promise<Tokens> {
  const { items } = await server.json<{ items: Secret[] }>({
    path: `/clusters/*/api/v1/secrets?fieldSelector=type%3D${TOKEN_TYPE}`,
    timeoutMs: 60_000,
  });
  const ours = items.filter(({ metadata }) => metadata.annotations?.[ANNOTATION.cluster] === cluster);
  return new Map(ours.map((secret) => [`${secret.metadata.namespace}/${secret.metadata.name}`, secret]));
}

/** Whether two tokens are the same but for the certificate authority that a shard puts beside them, its own. */
export function isSameToken(one: Secret | undefined, another: Secret | undefined): boolean {
  return one !== undefined && isDeepStrictEqual(contentOf(one), another && contentOf(another));
}

function contentOf({ metadata, data, ...rest }: Secret): unknown {
  const { resourceVersion: _version, managedFields: _fields, ...named } = metadata;
  return { ...rest, metadata: named, data: { ...data, "ca.crt": "" } };
}
