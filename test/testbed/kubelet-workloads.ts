/** Answers HTTP with its name; not ready while the file /tmp/unready exists. */
export const answering = `
  const fs = require("fs");
  process.on("SIGTERM", () => process.exit(0));
  require("http").createServer((request, response) => {
    response.statusCode = request.url === "/ready" && fs.existsSync("/tmp/unready") ? 503 : 200;
    response.end(process.env.POD_NAME);
  }).listen(8080, process.env.POD_IP);
`;
const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });

/** A container that runs a script with Node; it knows its pod's name and address. */
export function container(code: string, more: object = {}) {
  const env = [field("POD_NAME", "metadata.name"), field("POD_IP", "status.podIP")];
  return { name: "main", image: "registry.example/node:24", args: ["-e", code], env, ...more };
}

/** A Deployment or StatefulSet whose pods carry the label `app`. */
export function workload(
  kind: "Deployment" | "StatefulSet",
  name: string,
  podSpec: object,
  more: object = {},
) {
  const labels = { app: name };
  return {
    apiVersion: "apps/v1",
    kind,
    metadata: { name },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { terminationGracePeriodSeconds: 5, ...podSpec } },
      ...more,
    },
  };
}

/** Asks {@link answering} whether it is ready. */
export const ready = { httpGet: { path: "/ready", port: 8080 }, periodSeconds: 1, failureThreshold: 1 };

export function service(name: string, type: string, app: string) {
  const ports = [{ name: "http", port: 80, targetPort: 8080 }];
  return { apiVersion: "v1", kind: "Service", metadata: { name }, spec: { type, selector: { app }, ports } };
}

export function configMap(name: string, data: Readonly<Record<string, string>>) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data };
}

export function pod(name: string, spec: object) {
  return { apiVersion: "v1", kind: "Pod", metadata: { name }, spec };
}
