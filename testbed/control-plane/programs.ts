import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ProgramTable } from "../kubelet/programs.ts";
import { findProgram } from "../programs/find.ts";

/** Programs by the images of the manifests. Finding them may build or fetch them. */
export async function findPrograms(folder: string): Promise<ProgramTable> {
  return {
    etcd: await findProgram("etcd"),
    "kube-apiserver": await findProgram("kube-apiserver"),
    "kube-controller-manager": await findProgram("kube-controller-manager"),
    openvpn: await findProgram("openvpn"),
    "rehome-testbed": await writeLauncher(folder),
  };
}

/** An executable file that runs our own programs with this Node. */
async function writeLauncher(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const file = join(folder, "rehome-testbed");
  const main = join(import.meta.dirname, "programs", "main.ts");
  await writeFile(file, `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`);
  await chmod(file, 0o755);
  return file;
}
