import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { siteName } from "../inputs/common.ts";
import { checkControlPlanes, controlPlanes, dns, seeds } from "./config-control-planes.ts";

/** `rehome.yaml`: where the sites are. Names of files, never their contents; relative names are from its own folder. */
const file = z.string().min(1);

const kubeconfigRef = z.strictObject({
  kubeconfig: file.describe("Kubeconfig file"),
  context: z.string().min(1).optional().describe("Context in it; its current one when left out"),
  server: z.url().optional().describe("Address to use instead of the context's own server"),
});

const tls = z.strictObject({
  ca: file,
  cert: file.optional(),
  key: file.optional(),
});

const etcd = z.strictObject({
  endpoints: z.array(z.url({ protocol: /^https?$/ })).min(1),
  prefix: z
    .string()
    .regex(
      /^\/[^\s]*[^\s/]$/,
      "the etcd prefix starts with a slash and does not end with one, e.g. /registry",
    )
    .default("/registry"),
  tls: tls.optional(),
});

const shard = z.strictObject({
  ...kubeconfigRef.partial().shape,
  /** Addresses of all replicas, where the shard has several: each is probed for the fence. */
  replicas: z.array(z.url()).min(1).optional(),
  etcd,
});

const kcp = z.strictObject({
  frontProxies: z.array(kubeconfigRef).min(1).describe("Every front-proxy that clients use"),
  shardCredentials: kubeconfigRef
    .optional()
    .describe(
      "Credentials for shards that name no kubeconfig; their address is read from kcp's Shard object",
    ),
  shards: z.record(siteName, shard),
  cacheServer: kubeconfigRef
    .optional()
    .describe("kcp's cache server, where a move of a provider takes away what the origin has left"),
  /** Workspace for kcp's own LogicalClusterMigration objects, which make the `migration` fence. */
  fenceWorkspace: z.string().min(1).default("root"),
});

const temporal = z.strictObject({
  address: z.string().min(1).default("127.0.0.1:7233"),
  namespace: z.string().min(1).default("default"),
  tls: z
    .strictObject({
      ca: file.optional(),
      cert: file.optional(),
      key: file.optional(),
      serverName: z.string().optional(),
    })
    .optional(),
  apiKeyFile: file.optional(),
});

const schema = z
  .strictObject({
    temporal: temporal.prefault({}),
    kcp: kcp.optional(),
    seeds: seeds.default({}),
    dns: dns.optional(),
    controlPlanes: controlPlanes.default({}),
  })
  .superRefine(checkControlPlanes);

export type SitesConfig = z.infer<typeof schema>;
export type KcpConfig = NonNullable<SitesConfig["kcp"]>;
export type ShardConfig = KcpConfig["shards"][string];

/**
 * Reads and checks `rehome.yaml`.
 * @throws Error that names the file, the field and what is wrong with it.
 */
export function loadConfig(path: string): SitesConfig {
  let document: unknown;
  try {
    document = parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new Error(`cannot read configuration ${path}: ${(error as Error).message}`, { cause: error });
  }
  const parsed = schema.safeParse(document);
  if (!parsed.success)
    throw new Error(`configuration ${path} is not valid:\n${z.prettifyError(parsed.error)}`);
  return absolute(parsed.data, dirname(resolve(path))) as SitesConfig;
}

const FILE_FIELDS = new Set(["kubeconfig", "ca", "cert", "key", "apiKeyFile", "secretFile"]);

/** Makes the file names in a checked configuration absolute. */
function absolute(value: unknown, folder: string, field = ""): unknown {
  if (typeof value === "string") return FILE_FIELDS.has(field) ? resolve(folder, value) : value;
  if (Array.isArray(value)) return value.map((item) => absolute(item, folder, field));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, absolute(item, folder, key)]));
}
