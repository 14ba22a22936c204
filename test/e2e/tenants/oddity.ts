import type { Bed, ShardName } from "../harness/bed.ts";
import type { Objects } from "../harness/objects.ts";

/** The tenant that has all oddities, and where it is moved from and to. */
export interface Place {
  readonly bed: Bed;
  readonly cluster: string;
  readonly from: ShardName;
  readonly to: ShardName;
  readonly objects: Objects;
}

/** Something odd that a tenant may have or do. All of them live in one workspace and go through one move. */
export interface Oddity {
  readonly what: string;
  before(place: Place): Promise<void>;
  /** While the move stands before Verify: the snapshot is copied, changes come by the tail. */
  beforeVerify?(place: Place): Promise<void>;
  /** While the move stands before Cutover: both sides were proven equal, changes are followed. */
  beforeCutover?(place: Place): Promise<void>;
  /** After the move: expects that all is as the tenant left it, and works. */
  after(place: Place): Promise<void>;
}

export const API = "/api/v1";

export async function makeNamespace(objects: Objects, name: string): Promise<void> {
  await objects.create(`${API}/namespaces`, { apiVersion: "v1", kind: "Namespace", metadata: { name } });
}
