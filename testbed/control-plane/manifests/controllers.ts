import type {
  V1Deployment,
  V1Role,
  V1RoleBinding,
  V1ServiceAccount,
  V1VolumeProjection,
} from "@kubernetes/client-node";
import { seedNamespace } from "../names.ts";
import type { Singleton } from "../names.ts";
import {
  deployment,
  podIp,
  podName,
  podNamespace,
  readyWhen,
  secretVolume,
  seedMetadata,
  testbedImage,
} from "./objects.ts";

const managerPort = 10_257;
/** What the moved cluster needs; others act on nodes or on clouds, which it has not got. */
const controllers = [
  "deployment-controller",
  "replicaset-controller",
  "endpointslice-controller",
  "namespace-controller",
  "garbage-collector-controller",
  "serviceaccount-controller",
  "root-ca-certificate-publisher-controller",
];

/** The moved cluster's own controllers. They elect a leader in that cluster, so that two of them do no harm. */
export function controllerManagerDeployment(): V1Deployment {
  return deployment(seedMetadata("kube-controller-manager"), {
    replicas: 1,
    strategy: { type: "Recreate" },
    containers: [
      {
        name: "kube-controller-manager",
        image: "registry.example/kube-controller-manager:1.36.3",
        args: controllerManagerFlags(),
        env: [podIp],
        readinessProbe: {
          httpGet: { path: "/healthz", port: managerPort, scheme: "HTTPS" },
          periodSeconds: 1,
          timeoutSeconds: 5,
        },
        volumeMounts: ["kube-controller-manager", "kube-apiserver"].map((name) => ({
          name,
          mountPath: `/srv/kubernetes/${name}`,
        })),
      },
    ],
    volumes: ["kube-controller-manager", "kube-apiserver"].map(secretVolume),
  });
}

function controllerManagerFlags(): string[] {
  const kubeconfig = "/srv/kubernetes/kube-controller-manager/kubeconfig";
  const server = "/srv/kubernetes/kube-apiserver";
  return [
    // The address differs between seeds, the credentials do not.
    "--master=https://$(KUBE_APISERVER_SERVICE_HOST)",
    `--kubeconfig=${kubeconfig}`,
    `--service-account-private-key-file=${server}/service-account.key`,
    `--root-ca-file=${server}/ca.crt`,
    "--use-service-account-credentials=true",
    `--controllers=${controllers.join(",")}`,
    "--bind-address=$(POD_IP)",
    `--secure-port=${managerPort}`,
    "--authorization-always-allow-paths=/healthz",
    "--profiling=false",
  ];
}

const account = "seed-controllers";
const fenceMount = { name: "fences", mountPath: "/run/fences" };
/** What admission adds to a pod with a service account, written out: a seed may be without that plugin. */
const accessMount = { name: "seed-access", mountPath: "/var/run/secrets/kubernetes.io/serviceaccount" };
const accessSources: V1VolumeProjection[] = [
  { serviceAccountToken: { path: "token", expirationSeconds: 3607 } },
  { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
];

/** What {@link singletonDeployment} is allowed in the seed. */
export function singletonAccount(): [V1ServiceAccount, V1Role, V1RoleBinding] {
  const metadata = seedMetadata(account);
  const rbac = "rbac.authorization.k8s.io";
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata },
    {
      apiVersion: `${rbac}/v1`,
      kind: "Role",
      metadata,
      rules: [
        {
          apiGroups: ["coordination.k8s.io"],
          resources: ["leases"],
          verbs: ["get", "create", "update"],
        },
      ],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: "RoleBinding",
      metadata,
      roleRef: { apiGroup: rbac, kind: "Role", name: account },
      subjects: [{ kind: "ServiceAccount", name: account, namespace: seedNamespace }],
    },
  ];
}

/**
 * A controller that must run once over all seeds. As the originals do, it keeps
 * a Lease of its own name in the seed, which another seed's instance cannot see.
 * @param fenceFolder of the machine, shared by all seeds: there an instance proves to be alone
 */
export function singletonDeployment(name: Singleton, fenceFolder: string): V1Deployment {
  return deployment(seedMetadata(name), {
    replicas: 1,
    strategy: { type: "Recreate" },
    serviceAccountName: account,
    containers: [
      {
        name: "controller",
        image: testbedImage,
        args: [
          "controller",
          `--name=${name}`,
          `--fence-folder=${fenceMount.mountPath}`,
          // As the originals: only controller-runtime with that option gives its lease back when it ends.
          ...(name === "gardener-resource-manager" ? ["--release-on-exit"] : []),
        ],
        env: [podName, podNamespace],
        ...readyWhen("test", "-e", "/run/controller/leading"),
        volumeMounts: [fenceMount, accessMount, { name: "run", mountPath: "/run/controller" }],
      },
    ],
    volumes: [
      { name: "run", emptyDir: {} },
      { name: fenceMount.name, hostPath: { path: fenceFolder } },
      { name: accessMount.name, projected: { sources: accessSources } },
    ],
  });
}
