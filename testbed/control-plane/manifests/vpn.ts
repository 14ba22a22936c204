import type { V1ConfigMap, V1Deployment, V1ObjectMeta, V1Pod, V1Service } from "@kubernetes/client-node";
import { apiServerName, publicLabel, systemNamespace, vpnDestination, vpnPort } from "../names.ts";
import {
  configMap,
  deployment,
  podIp,
  podName,
  readyWhen,
  seedMetadata,
  service,
  testbedImage,
} from "./objects.ts";

const openVpnImage = "registry.example/openvpn:2.6";
const serverPort = 1194;
/** Network device of the server, at most 15 characters. */
const serverDevice = "vpn-demo";
const runFolder = "/run/openvpn";
const managementSocket = `${runFolder}/management`;
const connectedFile = `${runFolder}/connected`;
const runVolume = { name: "run", emptyDir: {} };
const runMount = { name: "run", mountPath: runFolder };
export const echoPort = 8080;

/** What server and clients must have in common, and credentials from `/srv/openvpn`. */
const commonSettings = [
  "dev-type tap",
  "topology subnet",
  "ca /srv/openvpn/ca.crt",
  "cert /srv/openvpn/tls.crt",
  "key /srv/openvpn/tls.key",
  "auth SHA256",
  "data-ciphers AES-256-GCM",
  "tls-version-min 1.2",
  "tcp-nodelay",
];

/** Configuration of the server; what depends on the seed is added by the container. */
export function vpnServerConfig(): V1ConfigMap {
  const settings = [
    "mode server",
    "tls-server",
    "proto tcp-server",
    `port ${serverPort}`,
    `dev ${serverDevice}`,
    ...commonSettings,
    "dh none",
    "tls-auth /srv/openvpn/vpn.tlsauth 0",
    "remote-cert-tls client",
    "verify-client-cert require",
    // All clients are replicas of one Deployment and show one certificate.
    "duplicate-cn",
    'push "topology subnet"',
    "keepalive 10 30",
    `management ${managementSocket} unix`,
    // One more, and each question of the path controller is logged.
    "verb 2",
  ];
  return configMap(seedMetadata("vpn-seed-server"), { "server.conf": `${settings.join("\n")}\n` });
}

/** For clients that must reach this seed whatever the DNS record says. */
export function vpnServerService(): V1Service {
  return service("vpn-seed-server", {
    type: "LoadBalancer",
    selector: { app: "vpn-seed-server" },
    ports: [{ name: "vpn", port: vpnPort, targetPort: "vpn" }],
  });
}

/** @param podRange addresses of the moved cluster's pods, e.g. `10.75.3.128/25` */
export function vpnServerDeployment(podRange: string): V1Deployment {
  return deployment(seedMetadata("vpn-seed-server"), {
    replicas: 1,
    // The network device is the node's: two servers cannot have it at once.
    strategy: { type: "Recreate" },
    podLabels: publicLabel,
    containers: [openVpnServer(), connectProxy(), pathController(podRange)],
    volumes: [
      runVolume,
      { name: "credentials", secret: { secretName: "vpn" } },
      { name: "config", configMap: { name: "vpn-seed-server" } },
    ],
  });
}

function openVpnServer() {
  return {
    name: "openvpn",
    image: openVpnImage,
    // Each seed has a tunnel network of its own: clients of both may run in one cluster, and answers find their way.
    command: [
      "/bin/sh",
      "-c",
      lines(
        'network="192.168.$(echo "$POD_IP" | cut -d. -f3)"',
        'exec openvpn --config /etc/openvpn/server.conf --local "$POD_IP" --ifconfig "$network.1" 255.255.255.0 \\',
        '  --ifconfig-pool "$network.2" "$network.62" 255.255.255.0',
      ),
    ],
    env: [podIp],
    ...readyWhen("test", "-S", managementSocket),
    volumeMounts: [
      runMount,
      { name: "credentials", mountPath: "/srv/openvpn" },
      { name: "config", mountPath: "/etc/openvpn" },
    ],
  };
}

function connectProxy() {
  return {
    name: "connect-proxy",
    image: testbedImage,
    args: [
      "connect-proxy",
      `--listen=$(POD_IP):${vpnPort}`,
      `--to=$(POD_IP):${serverPort}`,
      `--destination=${vpnDestination}`,
    ],
    env: [podIp],
    ports: [{ name: "vpn", containerPort: vpnPort }],
    readinessProbe: { tcpSocket: { port: vpnPort }, periodSeconds: 1 },
  };
}

function pathController(podRange: string) {
  return {
    name: "path-controller",
    image: testbedImage,
    args: [
      "path-controller",
      `--management=${managementSocket}`,
      `--device=${serverDevice}`,
      `--range=${podRange}`,
    ],
    volumeMounts: [runMount],
  };
}

function clientMetadata(name: string): V1ObjectMeta {
  return { name, namespace: systemNamespace, labels: { app: name } };
}

/** The Secret of the clients is called like this too. */
export const vpnClientMetadata = clientMetadata("vpn-shoot");

/** Clients share the node's network, and get the addresses and the names of devices of those that ended. */
const connected = [
  // Each answers for its own tunnel address only.
  "echo 1 > /proc/sys/net/ipv4/conf/$dev/arp_ignore",
  // One that was killed while it retired has left this.
  "ip rule del pref 5 iif $dev to $ifconfig_local blackhole 2> /dev/null",
  `echo $dev $ifconfig_local > ${connectedFile}`,
].join("; ");

/** Configuration of the clients; whom to dial is added by the container. */
export function vpnClientConfig(): V1ConfigMap {
  const settings = [
    "client",
    "proto tcp-client",
    "dev tap",
    "nobind",
    ...commonSettings,
    "tls-auth /srv/openvpn/vpn.tlsauth 1",
    "remote-cert-tls server",
    `http-proxy-option CUSTOM-HEADER Reversed-VPN "${vpnDestination}"`,
    "connect-retry 1 5",
    "connect-timeout 10",
    "resolv-retry infinite",
    "verb 3",
    "script-security 2",
    `up "/bin/sh -c '${connected}'"`,
    `down "/bin/sh -c 'rm -f ${connectedFile}'"`,
  ];
  return configMap(vpnClientMetadata, { "client.conf": `${settings.join("\n")}\n` });
}

/**
 * A client that is about to end forwards what comes, but does not answer the server's path controller any more, nor take
 * answers back where another client can: so both ways lead elsewhere before it goes, and nothing is lost with it.
 */
const retirement = lines(
  `read -r dev address < ${connectedFile} || exit 0`,
  // Addresses of the node's own come first by default.
  "ip rule add pref 10 lookup local && ip rule del pref 0 lookup local",
  'ip rule add pref 5 iif "$dev" to "$address" blackhole',
  'network="${address%.*}.0/24"',
  'ip route show "$network" | grep -qv "dev $dev " && ip route del "$network" dev "$dev"',
  "sleep 3",
  'ip rule del pref 5 iif "$dev" to "$address" blackhole',
);

/** The clients, which run in the moved cluster and connect outwards from there. */
export function vpnClientDeployment(): V1Deployment {
  return deployment(vpnClientMetadata, {
    replicas: 2,
    containers: [
      {
        name: "openvpn",
        image: openVpnImage,
        command: [
          "/bin/sh",
          "-c",
          lines(
            'host="${VPN_ENDPOINT%:*}" port="${VPN_ENDPOINT##*:}"',
            'exec openvpn --config /etc/openvpn/client.conf --remote "$host" "$port" --http-proxy "$host" "$port"',
          ),
        ],
        env: [podName, { name: "VPN_ENDPOINT", value: `${apiServerName}:${vpnPort}` }],
        ...readyWhen("test", "-e", connectedFile),
        lifecycle: { preStop: { exec: { command: ["/bin/sh", "-c", retirement] } } },
        volumeMounts: [
          runMount,
          { name: "credentials", mountPath: "/srv/openvpn" },
          { name: "config", mountPath: "/etc/openvpn" },
        ],
      },
    ],
    volumes: [
      runVolume,
      { name: "credentials", secret: { secretName: "vpn-shoot" } },
      { name: "config", configMap: { name: "vpn-shoot" } },
    ],
  });
}

/** A pod that API servers reach through the VPN only. */
export function echoPod(): V1Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: clientMetadata("echo"),
    spec: {
      automountServiceAccountToken: false,
      containers: [
        {
          name: "echo",
          image: testbedImage,
          args: ["echo", `--listen=$(POD_IP):${echoPort}`, "--name=$(POD_NAME)"],
          env: [podIp, podName],
          ports: [{ containerPort: echoPort }],
          readinessProbe: { tcpSocket: { port: echoPort }, periodSeconds: 1 },
        },
      ],
    },
  };
}

function lines(...text: readonly string[]): string {
  return text.join("\n");
}
