import { z } from "zod";
import { siteName } from "../inputs/common.ts";

/** The sections of `rehome.yaml` for moves of hosted control planes. `file` fields are made absolute by config.ts. */
const file = z.string().min(1);
const objectName = z.string().regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, {
  error: ({ input }) =>
    `${JSON.stringify(input)} is not the name of a Kubernetes object: use small letters, digits, - and .`,
});
const dnsName = z
  .string()
  .regex(/^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9]([a-z0-9-]*[a-z0-9])?$/i);

export const seed = z.strictObject({
  kubeconfig: file.describe("Kubeconfig file"),
  context: z.string().min(1).optional(),
  server: z.url().optional().describe("Address to use instead of the context's own server"),
});

export const dns = z.strictObject({
  servers: z
    .array(z.string().regex(/^(\[[0-9a-f:.]+\]|[^\s:]+):\d{1,5}$/i, "give host:port"))
    .min(1)
    .describe("Every authoritative server of the zone; updates go to the first that answers"),
  zone: dnsName,
  tsig: z
    .strictObject({
      name: dnsName.or(z.string().min(1)),
      algorithm: z.enum(["hmac-sha256", "hmac-sha384", "hmac-sha512"]).default("hmac-sha256"),
      secretFile: file.describe("File with the key in base64 on its only line"),
    })
    .optional()
    .describe("Key for updates; Gardener's DNSRecords need none"),
});

const vpnOfDataPlane = z.strictObject({
  client: z
    .strictObject({
      namespace: objectName.default("kube-system"),
      deployment: objectName.default("vpn-shoot"),
      /** Of the clients' container: `host:port` of the server that they dial. */
      endpointVariable: z.string().min(1).default("VPN_ENDPOINT"),
    })
    .prefault({}),
  probe: z
    .strictObject({
      namespace: objectName.default("kube-system"),
      pod: objectName.default("echo"),
      port: z.number().int().positive().default(8080),
    })
    .prefault({})
    .describe("A pod behind the tunnel that answers HTTP; API servers reach it only through the VPN"),
});

/** What every control plane has, whoever hosts it. */
const hosted = {
  namespace: objectName.describe("Namespace of the control plane, the same in every seed"),
  kubeconfig: file.describe("Admin kubeconfig of the control plane itself, by its DNS name"),
  context: z.string().min(1).optional(),
  etcds: z.array(objectName).min(1).default(["etcd-main", "etcd-events"]),
};

const statefulSet = z.strictObject(
  {
    hosting: z.literal("statefulset").default("statefulset"),
    ...hosted,
    apiServer: z.strictObject({
      dnsName,
      deployment: objectName.default("kube-apiserver"),
      service: objectName.default("kube-apiserver"),
    }),
    controllers: z
      .array(objectName)
      .default(["machine-controller-manager", "cluster-autoscaler", "gardener-resource-manager"])
      .describe(
        "Deployments that must never run in two seeds, with a Lease of the same name where they keep one",
      ),
    otherControllers: z
      .array(objectName)
      .default(["kube-controller-manager", "kube-scheduler"])
      .describe("Deployments that elect their leader in the control plane itself, and so are safe twice"),
    vpn: vpnOfDataPlane
      .extend({
        server: objectName
          .default("vpn-seed-server")
          .describe("Deployment and Service of the server, in the seed"),
      })
      .optional(),
  },
  unknownFields("statefulset", "hosting: gardener"),
);

const gardener = z.strictObject(
  {
    hosting: z.literal("gardener"),
    ...hosted,
    namespace: objectName.describe(
      "Namespace of the control plane in the seeds: the Shoot's status.technicalID",
    ),
    apiServer: z.strictObject({ dnsName }),
    garden: seed.describe("Gardener's own API"),
    project: objectName.describe("Namespace of the Shoot's project in the garden, e.g. garden-dev"),
    shoot: objectName.describe("Name of the Shoot"),
    ingress: z
      .strictObject({
        namespace: objectName.default("istio-ingress"),
        service: objectName.default("istio-ingressgateway"),
      })
      .prefault({})
      .describe("Load balancer in each seed that leads to API servers by name"),
    deadlineMs: z
      .number()
      .int()
      .min(1_000, {
        error: ({ input }) =>
          `${String(input)} is no time that a controller can work in: give 1000 ms or more`,
      })
      .default(10 * 60_000)
      .describe("How long one of Gardener's controllers may take before the step is tried again"),
    vpn: vpnOfDataPlane.optional(),
  },
  unknownFields("gardener", "hosting: statefulset"),
);

function unknownFields(hosting: string, other: string) {
  return {
    error: (issue: { code?: string; keys?: unknown }) =>
      issue.code === "unrecognized_keys"
        ? `hosting ${hosting} knows no field ${(issue.keys as string[]).join(", ")}: leave it out, or set ${other}`
        : undefined,
  };
}

export const controlPlane = z.discriminatedUnion("hosting", [statefulSet, gardener]);

export const seeds = z.record(siteName, seed);
export const controlPlanes = z.record(siteName, controlPlane);

export type SeedConfig = z.infer<typeof seed>;
export type DnsConfig = z.infer<typeof dns>;
export type ControlPlaneConfig = z.infer<typeof controlPlane>;

interface Sections {
  readonly seeds: Readonly<Record<string, SeedConfig>>;
  readonly dns?: DnsConfig | undefined;
  readonly controlPlanes: Readonly<Record<string, ControlPlaneConfig>>;
}

/** What sections must say of each other; told where it is missing. */
export function checkControlPlanes(
  { dns: zone, controlPlanes: all }: Sections,
  context: z.RefinementCtx,
): void {
  for (const [name, { hosting, apiServer }] of Object.entries(all)) {
    if (hosting !== "statefulset") continue;
    const refuse = (message: string, field: string[]) =>
      context.addIssue({
        code: "custom",
        message,
        path: ["controlPlanes", name, ...field],
        input: all[name],
      });
    if (zone?.tsig === undefined)
      refuse(`its DNS record is changed by updates: add the section dns, with tsig`, []);
    else if (!isInZone(apiServer.dnsName, zone.zone))
      refuse(`${apiServer.dnsName} is not in dns.zone ${zone.zone}: correct one of them`, [
        "apiServer",
        "dnsName",
      ]);
  }
}

/** Whether the servers of a zone are the authoritative ones of a name. */
export function isInZone(name: string, zone: string): boolean {
  return `.${name}`.toLowerCase().endsWith(`.${zone}`.toLowerCase());
}
