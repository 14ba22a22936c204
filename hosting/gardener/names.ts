/** Where Gardener keeps what: API paths, annotations and names (gardener v1.149.3, etcd-druid v0.38.1). */

/** A control plane of Gardener's: a Shoot, and its namespace in the seeds. */
export interface GardenerLayout {
  /** Its name in the configuration. */
  readonly name: string;
  /** Name of the Shoot, and the namespace of its project in the garden cluster. */
  readonly shoot: string;
  readonly project: string;
  /** The control plane's namespace in every seed: the Shoot's `status.technicalID`. */
  readonly namespace: string;
  /** Names of the Seed objects in the garden cluster. */
  readonly seeds: { readonly source: string; readonly destination: string };
  readonly etcds: readonly string[];
  /** The load balancer of each seed that leads to API servers and VPN servers by name (SNI). */
  readonly ingress: { readonly namespace: string; readonly service: string };
  /** Whether the configuration says how nodes are reached through the VPN. */
  readonly vpn: boolean;
  /** How long a controller may take to do what it was asked for. */
  readonly deadlineMs: number;
}

export const OPERATION = "gardener.cloud/operation";
export const OPERATION_TIMESTAMP = "gardener.cloud/timestamp";
/** Without it Gardener's webhook refuses to delete what holds infrastructure (seed-admission, extension resources). */
export const CONFIRM_DELETION = "confirmation.gardener.cloud/deletion";
export const LIVE_MIGRATE = "migration.gardener.cloud/live-migrate";
/** Stops gardenlets from reconciling a Shoot (and from migrating it their own way), where they are told to heed it. */
export const IGNORE = "shoot.gardener.cloud/ignore";

export const VPN_SERVER = "vpn-seed-server";
export const VPN_PORT = 8132;
export const API_SERVER = "kube-apiserver";

export const MACHINE_CONTROLLER = "machine-controller-manager";

/**
 * Controllers that act on the world outside etcd and must never run twice. They are stopped in this order: the autoscaler
 * asks for machines, the machine controller makes and deletes them.
 */
export const CONTROLLERS = ["cluster-autoscaler", MACHINE_CONTROLLER, "gardener-resource-manager"] as const;

/** They lead one another by a Lease in the control plane itself, so they may run in both seeds. */
export const OTHER_CONTROLLERS = ["kube-controller-manager", "kube-scheduler"] as const;

export const garden = (project: string, resource: string): string =>
  `/apis/core.gardener.cloud/v1beta1/namespaces/${project}/${resource}`;
export const seedsOfGarden = "/apis/core.gardener.cloud/v1beta1/seeds";

/** Extension resources live in the control plane's namespace; Clusters and BackupEntries have none. */
export const extension = (namespace: string, resource: string): string =>
  `/apis/extensions.gardener.cloud/v1alpha1/namespaces/${namespace}/${resource}`;
export const extensionOfSeed = (resource: string): string =>
  `/apis/extensions.gardener.cloud/v1alpha1/${resource}`;

export const etcds = (namespace: string): string =>
  `/apis/druid.gardener.cloud/v1alpha1/namespaces/${namespace}/etcds`;
export const managedResources = (namespace: string): string =>
  `/apis/resources.gardener.cloud/v1alpha1/namespaces/${namespace}/managedresources`;
export const machines = (namespace: string, resource: string): string =>
  `/apis/machine.sapcloud.io/v1alpha1/namespaces/${namespace}/${resource}`;
