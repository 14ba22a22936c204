import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * What is built from the Go module proxy, and how. Each folder beside this file
 * is a Go module that pins one recipe by version (`go.mod`) and checksum
 * (`go.sum`); the programs of a recipe are built together because they share
 * almost all of their packages.
 */

/** Programs that {@link findProgram} knows. */
export type ProgramName =
  | "temporal"
  | "etcd"
  | "etcdctl"
  | "etcd-benchmark"
  | "kcp"
  | "kcp-front-proxy"
  | "kcp-cache-server"
  | "kube-apiserver"
  | "kube-controller-manager"
  | "kubectl"
  | "wire"
  | "gardener-apiserver"
  | "toxiproxy-server"
  | "clients";

export interface Program {
  /** Go package of the command. */
  readonly package: string;
  /** File name that `go build` gives it. */
  readonly output: string;
  /**
   * How a program found in PATH tells its version. A program without it is never
   * taken from PATH, because its age could not be known.
   */
  readonly version?: { readonly arguments: readonly string[]; readonly pattern: RegExp };
}

/** A module that is published incompletely: it is copied into the build folder and completed. */
export interface CompletedModule {
  readonly path: string;
  readonly version: string;
  /** `h1:` checksum of the published module; go.sum does not cover a module replaced by a folder. */
  readonly sum: string;
  /** Folder that go.mod replaces the module by. */
  readonly folder: string;
  /** Our files, relative to the recipe's folder, to where they belong in the module. */
  readonly additions: Readonly<Record<string, string>>;
}

export interface Recipe {
  readonly name: string;
  /** Version of every program in it, without a leading `v`. */
  readonly version: string;
  /** Cold build with 2 cores, downloads included: told to people who wait. */
  readonly minutes: number;
  readonly linkerFlags: readonly string[];
  readonly completedModules: readonly CompletedModule[];
  /** Built only for those who ask for it by name: few need it, and it takes long. */
  readonly onlyByName?: true;
  /** Source files of our own in the recipe's folder, where it is not all from the module proxy. */
  readonly sources?: readonly string[];
  readonly programs: Readonly<Partial<Record<ProgramName, Program>>>;
}

const stripped = ["-s", "-w"];

const etcdRecipe: Recipe = {
  name: "etcd",
  version: "3.6.8",
  minutes: 1,
  linkerFlags: stripped,
  completedModules: [],
  programs: {
    etcd: {
      package: "go.etcd.io/etcd/server/v3",
      output: "server",
      version: { arguments: ["--version"], pattern: /^etcd Version: (\d+\.\d+\.\d+)/m },
    },
    etcdctl: {
      package: "go.etcd.io/etcd/etcdctl/v3",
      output: "etcdctl",
      version: { arguments: ["version"], pattern: /^etcdctl version: (\d+\.\d+\.\d+)/m },
    },
    "etcd-benchmark": { package: "go.etcd.io/etcd/v3/tools/benchmark", output: "benchmark" },
  },
};

const temporalRecipe: Recipe = {
  name: "temporal",
  // Later versions replace a nested module by a folder, so the proxy cannot serve them whole.
  version: "1.5.1",
  minutes: 3,
  linkerFlags: [...stripped, "-X github.com/temporalio/cli/temporalcli.Version=1.5.1"],
  completedModules: [],
  programs: {
    temporal: {
      package: "github.com/temporalio/cli/cmd/temporal",
      output: "temporal",
      version: { arguments: ["--version"], pattern: /temporal version (\d+\.\d+\.\d+)/ },
    },
  },
};

const kcpVersion = { arguments: ["--version"], pattern: /\+kcp-v(\d+\.\d+\.\d+)/ };

const kcpRecipe: Recipe = {
  name: "kcp",
  version: "0.32.3",
  minutes: 7,
  linkerFlags: [
    ...stripped,
    "-X k8s.io/component-base/version.gitVersion=v1.36.0+kcp-v0.32.3",
    "-X k8s.io/component-base/version.gitMajor=1",
    "-X k8s.io/component-base/version.gitMinor=36",
  ],
  completedModules: [
    {
      path: "github.com/kcp-dev/virtual-workspace-framework",
      version: "v0.31.2",
      sum: "h1:AStPulh0Yylg9XwMh8lxrhFvZnixV9f2dZZzHuquhs4=",
      folder: "framework",
      additions: { "forwardingregistry/path_segment.go": "pkg/forwardingregistry/path_segment.go" },
    },
  ],
  programs: {
    kcp: { package: "github.com/kcp-dev/kcp/cmd/kcp", output: "kcp", version: kcpVersion },
    "kcp-front-proxy": {
      package: "github.com/kcp-dev/kcp/cmd/kcp-front-proxy",
      output: "kcp-front-proxy",
      version: kcpVersion,
    },
    "kcp-cache-server": { package: "github.com/kcp-dev/kcp/cmd/cache-server", output: "cache-server" },
  },
};

const kubernetesVersion = { arguments: ["--version"], pattern: /^Kubernetes v(\d+\.\d+\.\d+)$/m };

const kubernetesRecipe: Recipe = {
  name: "kubernetes",
  version: "1.36.3",
  minutes: 5,
  linkerFlags: [
    ...stripped,
    "-X k8s.io/component-base/version.gitVersion=v1.36.3",
    "-X k8s.io/component-base/version.gitMajor=1",
    "-X k8s.io/component-base/version.gitMinor=36",
  ],
  completedModules: [],
  programs: {
    "kube-apiserver": {
      package: "k8s.io/kubernetes/cmd/kube-apiserver",
      output: "kube-apiserver",
      version: kubernetesVersion,
    },
    "kube-controller-manager": {
      package: "k8s.io/kubernetes/cmd/kube-controller-manager",
      output: "kube-controller-manager",
      version: kubernetesVersion,
    },
    kubectl: {
      package: "k8s.io/kubernetes/cmd/kubectl",
      output: "kubectl",
      version: {
        arguments: ["version", "--client"],
        pattern: /^Client Version: v(\d+\.\d+\.\d+)$/m,
      },
    },
  },
};

const wireSources = ["main.go", "line.go", "device.go"];

const wireRecipe: Recipe = {
  name: "wire",
  version: digestOf("wire", ["go.mod", ...wireSources]),
  minutes: 1,
  linkerFlags: stripped,
  completedModules: [],
  sources: wireSources,
  programs: { wire: { package: "rehome.invalid/testbed/wire", output: "wire" } },
};

/** Cuts and delays single connections while programs run. */
const toxiproxyRecipe: Recipe = {
  name: "toxiproxy",
  version: "2.5.0",
  minutes: 1,
  linkerFlags: stripped,
  completedModules: [],
  programs: {
    "toxiproxy-server": { package: "github.com/Shopify/toxiproxy/v2/cmd/server", output: "server" },
  },
};

const clientsSources = [
  "main.go",
  "apply.go",
  "client.go",
  "clients.go",
  "controller.go",
  "finish.go",
  "informer.go",
  "kubectl.go",
  "leases.go",
  "ledger.go",
  "provider.go",
  "ready.go",
  "record.go",
  "resource.go",
  "sights.go",
  "stream.go",
  "writers.go",
];

/** Real clients of a workspace, of the same Kubernetes as kcp. */
const clientsRecipe: Recipe = {
  name: "clients",
  version: digestOf("clients", ["go.mod", ...clientsSources]),
  minutes: 2,
  linkerFlags: stripped,
  completedModules: [],
  sources: clientsSources,
  programs: { clients: { package: "rehome.invalid/testbed/clients", output: "clients" } },
};

/** Gardener's API server, which no CRD can stand in for (`shoots/binding`). */
const gardenerRecipe: Recipe = {
  name: "gardener",
  version: "1.149.3",
  minutes: 8,
  linkerFlags: [...stripped, "-X k8s.io/component-base/version.gitVersion=v1.149.3"],
  completedModules: [],
  onlyByName: true,
  programs: {
    "gardener-apiserver": {
      package: "github.com/gardener/gardener/cmd/gardener-apiserver",
      output: "gardener-apiserver",
      version: { arguments: ["--version"], pattern: /v(\d+\.\d+\.\d+)\s*$/m },
    },
  },
};

/** Every recipe, in the order in which `main.ts` builds them when no name is given. */
export const recipes: readonly Recipe[] = [
  etcdRecipe,
  temporalRecipe,
  kcpRecipe,
  kubernetesRecipe,
  wireRecipe,
  gardenerRecipe,
  toxiproxyRecipe,
  clientsRecipe,
];

/** Names of all programs. */
export const programNames = recipes.flatMap((recipe) => Object.keys(recipe.programs)) as ProgramName[];

/** Names of the programs that are built when none is named. */
export const defaultProgramNames = programNames.filter((name) => !recipeOf(name).recipe.onlyByName);

/** The recipe that builds a program, and the program's entry in it. Throws a plain Error for an unknown name. */
export function recipeOf(name: ProgramName): { recipe: Recipe; program: Program } {
  for (const recipe of recipes) {
    const program = recipe.programs[name];
    if (program !== undefined) return { recipe, program };
  }
  throw new Error(`unknown program ${JSON.stringify(name)}; known are ${programNames.join(", ")}`);
}

/** Name of the environment variable that names a program's file, e.g. `REHOME_BIN_ETCD_BENCHMARK`. */
export function environmentVariableOf(name: string): string {
  return `REHOME_BIN_${name.toUpperCase().replaceAll("-", "_")}`;
}

/** Whether a program of version `found` may stand in for `pinned`: same minor version, no older patch. */
export function isCompatibleVersion(found: string, pinned: string): boolean {
  const [foundMajor, foundMinor, foundPatch = 0] = found.split(".").map(Number);
  const [major, minor, patch = 0] = pinned.split(".").map(Number);
  return foundMajor === major && foundMinor === minor && foundPatch >= patch;
}

/** Version of what is made from files of ours: another one as soon as any of them changes. */
function digestOf(folder: string, files: readonly string[]): string {
  const hash = createHash("sha256");
  for (const file of files) hash.update(readFileSync(join(import.meta.dirname, folder, file)));
  return hash.digest("hex").slice(0, 12);
}
