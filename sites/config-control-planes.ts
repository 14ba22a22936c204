import { z } from "zod";
import { siteName } from "../inputs/common.ts";

/** The sections of `rehome.yaml` for moves of hosted control planes. `file` fields are made absolute by config.ts. */
const file = z.string().min(1);
const objectName = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, "give the name of a Kubernetes object");
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
  tsig: z.strictObject({
    name: dnsName.or(z.string().min(1)),
    algorithm: z.enum(["hmac-sha256", "hmac-sha384", "hmac-sha512"]).default("hmac-sha256"),
    secretFile: file.describe("File with the key in base64 on its only line"),
  }),
});

const vpn = z.strictObject({
  server: objectName.default("vpn-seed-server").describe("Deployment and Service of the server, in the seed"),
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

export const controlPlane = z.strictObject({
  namespace: objectName.describe("Namespace of the control plane, the same in every seed"),
  kubeconfig: file.describe("Admin kubeconfig of the control plane itself, by its DNS name"),
  context: z.string().min(1).optional(),
  apiServer: z.strictObject({
    dnsName,
    deployment: objectName.default("kube-apiserver"),
    service: objectName.default("kube-apiserver"),
  }),
  etcds: z.array(objectName).min(1).default(["etcd-main", "etcd-events"]),
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
  vpn: vpn.optional(),
});

export const seeds = z.record(siteName, seed);
export const controlPlanes = z.record(siteName, controlPlane);

export type SeedConfig = z.infer<typeof seed>;
export type DnsConfig = z.infer<typeof dns>;
export type ControlPlaneConfig = z.infer<typeof controlPlane>;
