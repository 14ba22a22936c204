/** So deep that a condition or a label is told, and no longer. */
const DEPTH = 4;
const AT_MOST = 8;
/** Of fields as APIs define them; a tenant may have written a secret where only it decides on the names. */
const FIELD = /^[A-Za-z][A-Za-z0-9]{0,62}$/;

/**
 * Names the fields in which two stored objects differ, such as `status.phase`, and no values, which may be secret; `*` stands
 * for a name that no API has given.
 * @returns nothing for what is not stored as JSON: built-in resources, and what is encrypted.
 */
export function differingFields(one: Buffer, another: Buffer): string[] {
  try {
    const [left, right] = [one, another].map((value): unknown => JSON.parse(value.toString()));
    return isObject(left) && isObject(right) ? [...new Set(below(left, right, []))].slice(0, AT_MOST) : [];
  } catch {
    // Also what is too deep for this is only not told.
    return [];
  }
}

function below(left: unknown, right: unknown, path: readonly string[]): string[] {
  if (JSON.stringify(left) === JSON.stringify(right)) return [];
  if (path.length === DEPTH || !isObject(left) || !isObject(right)) return [path.join(".")];
  const names = new Set([...Object.keys(left), ...Object.keys(right)]);
  return [...names].flatMap((name) =>
    below(left[name], right[name], [...path, FIELD.test(name) ? name : "*"]),
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
