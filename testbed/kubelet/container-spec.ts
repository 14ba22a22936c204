import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { V1Container, V1Pod } from "@kubernetes/client-node";
import { environmentOf, expand } from "./environment.ts";
import type { EnvironmentSources, PodFacts } from "./environment.ts";
import type { Programs } from "./programs.ts";
import type { Mount, SandboxSpec } from "./sandbox.ts";

export interface ContainerContext {
  readonly pod: V1Pod;
  readonly container: V1Container;
  readonly facts: PodFacts;
  readonly sources: EnvironmentSources;
  readonly programs: Programs;
  /** Folder or file on the node of each volume. */
  readonly volumes: ReadonlyMap<string, string>;
  readonly podFolder: string;
  readonly logFolder: string;
  /** Address of the name server that pods ask; default: what the node itself asks. */
  readonly nameServer?: string | undefined;
}

/**
 * What to run for a container, with its environment read anew.
 * @throws MissingSourceError when something that the environment reads is absent
 * @throws Error for an image without a program
 */
export async function sandboxSpec(context: ContainerContext): Promise<SandboxSpec> {
  const { pod, container, facts, programs, podFolder, logFolder } = context;
  const image = container.image ?? "";
  const hostname = pod.spec?.hostname ?? pod.metadata?.name ?? "";
  const own = await environmentOf(pod, container, facts, context.sources);
  const environment = { PATH: programs.path(image), HOME: "/root", HOSTNAME: hostname, ...own };
  const command = container.command ?? [programs.defaultCommand(image)];
  return {
    command: [...command, ...(container.args ?? [])].map((each) => expand(each, own)),
    environment,
    hostname,
    workingDir: container.workingDir ?? "/",
    mounts: [
      ...programs.mounts(),
      ...(await nameFiles(context, hostname)),
      ...(await volumeMounts(container, own, context.volumes)),
    ],
    scratch: join(podFolder, "roots", container.name),
    logFile: join(logFolder, `${container.name}.log`),
  };
}

async function volumeMounts(
  container: V1Container,
  environment: Readonly<Record<string, string>>,
  volumes: ReadonlyMap<string, string>,
): Promise<Mount[]> {
  const mounts: Mount[] = [];
  // A mount within another one comes after it.
  const wanted = (container.volumeMounts ?? []).toSorted((a, b) => a.mountPath.length - b.mountPath.length);
  for (const { name, mountPath, subPath, subPathExpr, readOnly = false } of wanted) {
    const volume = volumes.get(name);
    if (volume === undefined) throw new Error(`volume ${name} is not in the pod`);
    const within = subPath ?? (subPathExpr === undefined ? "" : expand(subPathExpr, environment));
    const source = join(volume, within);
    const found = await stat(source).catch(() => undefined);
    if (found === undefined) await mkdir(source, { recursive: true });
    mounts.push({ source, target: mountPath, isFile: found?.isFile() ?? false, readOnly });
  }
  return mounts;
}

/** /etc/hosts and /etc/resolv.conf of the pod. */
async function nameFiles(context: ContainerContext, hostname: string): Promise<Mount[]> {
  const { pod, facts, podFolder } = context;
  const aliases = (pod.spec?.hostAliases ?? []).map(
    ({ ip, hostnames = [] }) => `${ip}\t${hostnames.join(" ")}`,
  );
  const hosts = ["127.0.0.1\tlocalhost", `${facts.podIP}\t${hostname}`, ...aliases, ""].join("\n");
  await mkdir(podFolder, { recursive: true });
  const files = { hosts, "resolv.conf": await resolverConfiguration(context) };
  return await Promise.all(
    Object.entries(files).map(async ([name, text]) => {
      const source = join(podFolder, name);
      await writeFile(source, text);
      return { source, target: `/etc/${name}`, isFile: true, readOnly: true };
    }),
  );
}

async function resolverConfiguration({ pod, nameServer }: ContainerContext): Promise<string> {
  const { nameservers = [], searches = [], options = [] } = pod.spec?.dnsConfig ?? {};
  const servers =
    pod.spec?.dnsPolicy === "None" || nameServer === undefined ? nameservers : [nameServer, ...nameservers];
  if (servers.length === 0) return await readFile("/etc/resolv.conf", "utf8").catch(() => "");
  const settings = options.map(({ name, value }) => (value === undefined ? name : `${name}:${value}`));
  return [
    ...servers.map((server) => `nameserver ${server}`),
    ...(searches.length === 0 ? [] : [`search ${searches.join(" ")}`]),
    ...(settings.length === 0 ? [] : [`options ${settings.join(" ")}`]),
    "",
  ].join("\n");
}
