import { mkdir, rm, stat, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Mount } from "./sandbox.ts";

/**
 * Programs by image name (last part of the image without tag): one absolute path,
 * or several by the names under which a container finds them; the first is its
 * default command.
 */
export type ProgramTable = Readonly<Record<string, string | Readonly<Record<string, string>>>>;

/** Last part of an image without tag and digest: `etcd` for `registry.example/db/etcd:3.6.8`. */
export function imageName(image: string): string {
  const last = image.slice(image.lastIndexOf("/") + 1);
  return last.split(/[:@]/)[0] as string;
}

/** Puts each image's programs into a folder of its own, under the names that containers use. */
export class Programs {
  readonly #folder: string;
  readonly #table: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly #hostPaths: readonly string[];

  private constructor(
    folder: string,
    table: ReadonlyMap<string, Readonly<Record<string, string>>>,
    hostPaths: readonly string[],
  ) {
    this.#folder = folder;
    this.#table = table;
    this.#hostPaths = hostPaths;
  }

  /** @param hostPaths folders that containers must see, beside those of the programs */
  static async create(folder: string, table: ProgramTable, hostPaths: readonly string[]): Promise<Programs> {
    const entries = Object.entries(table).map(([image, programs]) => {
      return [image, typeof programs === "string" ? { [image]: programs } : programs] as const;
    });
    await rm(folder, { recursive: true, force: true });
    for (const [image, programs] of entries) {
      await mkdir(join(folder, image), { recursive: true });
      for (const [name, path] of Object.entries(programs)) await symlink(path, join(folder, image, name));
    }
    await mkdir(folder, { recursive: true });
    const files = entries.flatMap(([, programs]) => Object.values(programs));
    const folders = [...files, process.execPath].map((file) => dirname(file));
    return new Programs(folder, new Map(entries), await outsideOfRoot([folder, ...folders, ...hostPaths]));
  }

  /** Folders on other file systems than the root, which an overlay of the root does not show. */
  mounts(): Mount[] {
    return this.#hostPaths.map((path) => ({ source: path, target: path, isFile: false, readOnly: true }));
  }

  /** Search path of a container. @throws Error when the image is not known */
  path(image: string): string {
    this.#programsOf(image);
    const system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    return [join(this.#folder, imageName(image)), dirname(process.execPath), system].join(":");
  }

  /** Name of the program that an image runs by default. */
  defaultCommand(image: string): string {
    return Object.keys(this.#programsOf(image))[0] as string;
  }

  #programsOf(image: string): Readonly<Record<string, string>> {
    const programs = this.#table.get(imageName(image));
    if (programs !== undefined) return programs;
    throw new Error(`no program for image ${image}; known are ${[...this.#table.keys()].join(", ")}`);
  }
}

async function outsideOfRoot(paths: readonly string[]): Promise<string[]> {
  const { dev: root } = await stat("/");
  const devices = await Promise.all(
    [...new Set(paths)].map(async (path) => ({ path, dev: (await stat(path)).dev })),
  );
  return devices.filter(({ dev }) => dev !== root).map(({ path }) => path);
}
