import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { V1KeyToPath } from "@kubernetes/client-node";

/** A file of a volume. */
export interface ProjectedFile {
  readonly data: Buffer;
  readonly mode: number;
}

/** Files of a volume by their path in it. */
export type Projection = ReadonlyMap<string, ProjectedFile>;

const link = "..data";

/**
 * Makes the folder's content equal to the files, all at once: a reader sees the
 * old files or the new ones, never some of each. As the kubelet does it: the
 * files lie in a folder of their own, to which one link is turned.
 */
export async function project(folder: string, files: Projection): Promise<void> {
  await mkdir(folder, { recursive: true });
  const previous = await readlink(join(folder, link)).catch(() => undefined);
  if (previous !== undefined && (await holds(join(folder, previous), files))) return;
  const current = basename(await mkdtemp(join(folder, "..version-")));
  await chmod(join(folder, current), 0o755);
  for (const [path, { data, mode }] of files) {
    const file = join(folder, current, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, data, { mode });
  }
  await symlink(current, join(folder, `${link}.new`));
  await rename(join(folder, `${link}.new`), join(folder, link));
  const names = new Set([...files.keys()].map((path) => path.split("/")[0] as string));
  for (const name of names) await symlink(join(link, name), join(folder, name)).catch(ignoreExisting);
  for (const name of await readdir(folder)) {
    if (!name.startsWith("..") && !names.has(name)) await rm(join(folder, name));
  }
  if (previous !== undefined) {
    await rm(join(folder, previous), { recursive: true, force: true });
  }
}

/** Whether the folder holds these files and no others. */
async function holds(folder: string, files: Projection): Promise<boolean> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  if (entries.filter((entry) => entry.isFile()).length !== files.size) return false;
  for (const [path, { data }] of files) {
    const present = await readFile(join(folder, path)).catch(() => undefined);
    if (present === undefined || !present.equals(data)) return false;
  }
  return true;
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}

/**
 * Files from the keys of a Secret or ConfigMap: all of them, or those listed.
 * @throws Error when a listed key is absent and the source is not optional
 */
export function filesFromKeys(
  values: Readonly<Record<string, Buffer>>,
  source: { readonly items?: V1KeyToPath[] | undefined; readonly optional?: boolean | undefined },
  defaultMode: number,
): Projection {
  const items = source.items ?? Object.keys(values).map((key): V1KeyToPath => ({ key, path: key }));
  const files = new Map<string, ProjectedFile>();
  for (const { key, path, mode } of items) {
    const data = values[key];
    if (data !== undefined) files.set(path, { data, mode: mode ?? defaultMode });
    else if (source.optional !== true) throw new Error(`references non-existent key: ${key}`);
  }
  return files;
}
