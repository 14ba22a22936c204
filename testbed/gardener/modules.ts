import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { parseAllDocuments } from "yaml";

const run = promisify(execFile);

/** A Go module whose files are read, pinned by version and checksum. */
interface Module {
  readonly path: string;
  readonly version: string;
  /** `h1:` checksum of the published module. */
  readonly sum: string;
}

export const GARDENER: Module = {
  path: "github.com/gardener/gardener",
  version: "v1.149.3",
  sum: "h1:C+L/5df4m5PC/0yY332YK82X+R4ozDUdajGiZPsb7sQ=",
};

export const ETCD_DRUID_API: Module = {
  path: "github.com/gardener/etcd-druid/api",
  version: "v0.38.1",
  sum: "h1:D5KDvXrnlkZCkEWDvJ2qUNjrhow71sD7GxGioh9i+D0=",
};

/** A CustomResourceDefinition as its YAML has it. */
export interface Crd {
  readonly apiVersion: string;
  readonly kind: "CustomResourceDefinition";
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly versions: readonly {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: object };
    }[];
  };
}

const EXTENSIONS = [
  "backupentries",
  "clusters",
  "containerruntimes",
  "controlplanes",
  "dnsrecords",
  "extensions",
  "infrastructures",
  "networks",
  "operatingsystemconfigs",
  "workers",
];
const MACHINES = ["machineclasses", "machinedeployments", "machinesets", "machines"];

/** The CRDs of a seed, as the pinned modules publish them. */
export async function seedCrds(): Promise<Crd[]> {
  const [gardener, druid] = [await folderOf(GARDENER), await folderOf(ETCD_DRUID_API)];
  const seedCrd = (name: string) => join(gardener, "example", "seed-crds", `10-crd-${name}.yaml`);
  const files = [
    ...EXTENSIONS.map((name) => seedCrd(`extensions.gardener.cloud_${name}`)),
    ...MACHINES.map((name) => seedCrd(`machine.sapcloud.io_${name}`)),
    seedCrd("resources.gardener.cloud_managedresources"),
    ...["etcds", "etcdopstasks"].map((name) =>
      join(druid, "core", "v1alpha1", "crds", `druid.gardener.cloud_${name}.yaml`),
    ),
  ];
  return (await Promise.all(files.map(readCrds))).flat();
}

/**
 * druid's CRD with the field that it was given after the pinned version (etcd-druid #1438, merged for the next one),
 * as that change declares it. Without it no live move is possible, and rehome refuses one.
 */
export function withAdvertisedUrls(crd: Crd): Crd {
  const copy = structuredClone(crd);
  const urls = {
    type: "array",
    items: { type: "string" },
    minItems: 1,
    maxItems: 5,
    "x-kubernetes-list-type": "set",
  };
  const member = {
    type: "object",
    required: ["memberName", "urls"],
    properties: { memberName: { type: "string" }, urls },
  };
  const perMember = {
    type: "object",
    properties: {
      overrideDefaultURL: { type: "boolean" },
      members: { type: "array", items: member, maxItems: 10 },
    },
  };
  const field = { type: "object", properties: { clientURLs: perMember, peerURLs: perMember } };
  for (const { schema } of copy.spec.versions) {
    const { properties } = schema.openAPIV3Schema as {
      properties: { spec: { properties: { etcd: { properties: Record<string, object> } } } };
    };
    properties.spec.properties.etcd.properties["additionalAdvertisedURLs"] = field;
  }
  return copy;
}

async function readCrds(file: string): Promise<Crd[]> {
  return parseAllDocuments(await readFile(file, "utf8"))
    .map((document) => document.toJS() as Crd | null)
    .filter((crd) => crd !== null);
}

/** Downloads a module through the Go client, unless its cache has it. @throws Error for a wrong checksum. */
async function folderOf({ path, version, sum }: Module): Promise<string> {
  const { stdout } = await run("go", ["mod", "download", "-json", `${path}@${version}`], {
    cwd: tmpdir(),
    // Checked here, so the public checksum database need not be reachable.
    env: { ...process.env, GOWORK: "off", GONOSUMDB: path },
  });
  const downloaded = JSON.parse(stdout) as { Dir: string; Sum: string };
  if (downloaded.Sum !== sum)
    throw new Error(`${path}@${version} has checksum ${downloaded.Sum}, expected ${sum}`);
  return downloaded.Dir;
}
