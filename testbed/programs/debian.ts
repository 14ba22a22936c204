import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { cacheRoot, isExecutable } from "./cache.ts";
import { acquireLock } from "./lock.ts";
import { environmentVariableOf } from "./recipes.ts";

const run = promisify(execFile);

/** Programs written in C, which are taken from the distribution instead of being built. */
export type DebianProgramName = "named" | "dig" | "nsupdate" | "openvpn" | "nft";

interface DebianProgram {
  readonly package: string;
  /** Where the package puts it, without the leading slash. */
  readonly file: string;
}

const programs: Readonly<Record<DebianProgramName, DebianProgram>> = {
  named: { package: "bind9", file: "usr/sbin/named" },
  dig: { package: "bind9-dnsutils", file: "usr/bin/dig" },
  nsupdate: { package: "bind9-dnsutils", file: "usr/bin/nsupdate" },
  openvpn: { package: "openvpn", file: "usr/sbin/openvpn" },
  nft: { package: "nftables", file: "usr/sbin/nft" },
};

export const debianProgramNames = Object.keys(programs) as DebianProgramName[];

/** Where distributions keep servers; an ordinary user's PATH often lacks these. */
const serverFolders = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/** A library of this package goes with the dynamic loader of the running system: never mixed with another's. */
const loaderPackages = new Set(["libc6", "libc-bin"]);

export function isDebianProgram(name: string): name is DebianProgramName {
  return Object.hasOwn(programs, name);
}

/**
 * Absolute path of an executable: PATH or the system's folders for servers, else
 * the cache, else the distribution's package, fetched and unpacked into the cache.
 * Nothing is installed into the system and no rights are needed, except to fetch
 * the package lists where there are none. Throws an Error that names the
 * alternatives when that cannot be done here.
 */
export async function findDebianProgram(
  name: DebianProgramName,
  systemFolders: readonly string[] = serverFolders,
): Promise<string> {
  for (const folder of [...(process.env["PATH"] ?? "").split(delimiter), ...systemFolders]) {
    if (folder !== "" && (await isExecutable(join(folder, name)))) return join(folder, name);
  }
  const wanted = programs[name].package;
  const folder = join(cacheRoot(), `debian-${wanted}-${await suite()}-${process.arch}`);
  const wrapper = join(folder, "bin", name);
  if (!(await isExecutable(wrapper))) await unpackOnce(wanted, folder, name);
  return wrapper;
}

async function unpackOnce(wanted: string, folder: string, name: DebianProgramName): Promise<void> {
  const lock = await acquireLock(join(cacheRoot(), "build.lock"), (holder) =>
    tell(`waiting for the build of process ${holder.pid}`),
  );
  const scratch = join(cacheRoot(), `build-${wanted}-${randomUUID()}`);
  try {
    if (await isExecutable(join(folder, "bin", name))) return;
    tell(`fetching the package ${wanted}`);
    const unpacked = join(scratch, "root");
    await mkdir(unpacked, { recursive: true });
    for (const file of await download(wanted, scratch)) await run("dpkg", ["-x", file, unpacked]);
    await writeWrappers(wanted, unpacked, folder);
    await rm(folder, { recursive: true, force: true });
    await rename(unpacked, folder);
  } catch (cause) {
    const variables = programsOf(wanted).map(environmentVariableOf).join(", ");
    throw new Error(
      `${name} is missing, and its package ${wanted} cannot be had: ${reasonOf(cause)}. ` +
        `Install ${wanted} (or what holds ${programsOf(wanted).join(", ")} here), or name the file in ${variables}.`,
      { cause },
    );
  } finally {
    await rm(scratch, { recursive: true, force: true });
    await lock.release();
  }
}

/** Files of the package and of everything that it needs and this system lacks. */
async function download(wanted: string, folder: string): Promise<string[]> {
  const attempt = async () => {
    const missing = await missingPackages(wanted, folder);
    if (missing.length === 0) throw new Error(`the system says that it has ${wanted} already`);
    await apt(["download", ...missing], folder);
  };
  try {
    await attempt();
  } catch (error) {
    // The lists of packages are absent or old; only root may fetch them.
    if ((error as NodeJS.ErrnoException).code === "ENOENT" || process.getuid?.() !== 0) throw error;
    await apt(["update"], folder);
    await attempt();
  }
  const files = await readdir(folder);
  return files.filter((file) => file.endsWith(".deb")).map((file) => join(folder, file));
}

/** What an installation would bring, as `<package>=<version>`. */
async function missingPackages(wanted: string, folder: string): Promise<string[]> {
  const simulated = await apt(["--simulate", "--no-install-recommends", "install", wanted], folder);
  return [...simulated.matchAll(/^Inst (\S+) (?:\[\S+\] )?\((\S+)/gm)]
    .filter(([, name]) => !loaderPackages.has(name as string))
    .map(([, name, version]) => `${name}=${version}`);
}

async function apt(commandArguments: readonly string[], cwd: string): Promise<string> {
  const environment = { ...process.env, LC_ALL: "C", DEBIAN_FRONTEND: "noninteractive" };
  const { stdout } = await run("apt-get", [...commandArguments], { cwd, env: environment, timeout: 300_000 });
  return stdout;
}

/** Executables that find their own libraries, in `<folder>/bin`. They name the folder's final place. */
async function writeWrappers(wanted: string, unpacked: string, folder: string): Promise<void> {
  const libraries = (await libraryFolders(unpacked)).map((relative) => join(folder, relative)).join(":");
  await mkdir(join(unpacked, "bin"), { recursive: true });
  for (const name of programsOf(wanted)) {
    const program = join(folder, programs[name].file);
    const script = [
      "#!/bin/sh",
      `LD_LIBRARY_PATH=${quote(libraries)}\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}`,
      "export LD_LIBRARY_PATH",
      `exec ${quote(program)} "$@"`,
    ];
    await writeFile(join(unpacked, "bin", name), `${script.join("\n")}\n`);
    await chmod(join(unpacked, "bin", name), 0o755);
  }
}

async function libraryFolders(unpacked: string): Promise<string[]> {
  const entries = await readdir(unpacked, { recursive: true, withFileTypes: true });
  const libraries = entries.filter((entry) => /\.so(\.|$)/.test(entry.name));
  return [...new Set(libraries.map((entry) => entry.parentPath.slice(unpacked.length + 1)))];
}

function programsOf(wanted: string): DebianProgramName[] {
  return debianProgramNames.filter((name) => programs[name].package === wanted);
}

/** Code name of the distribution's release: packages of another one would not fit the system's libraries. */
async function suite(): Promise<string> {
  const release = await readFile("/etc/os-release", "utf8").catch(() => "");
  return /^VERSION_CODENAME=(\S+)$/m.exec(release)?.[1] ?? "unknown";
}

function reasonOf(error: unknown): string {
  const { code, path, stderr, message } = error as NodeJS.ErrnoException & { stderr?: string };
  if (code === "ENOENT")
    return `there is no "${path}" here (packages are taken from Debian and its kin only)`;
  return stderr?.trim().split("\n").slice(-3).join("; ") || message;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function tell(line: string): void {
  console.error(`rehome: ${line}`);
}
