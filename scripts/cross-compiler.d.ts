// See cross-compiler.js.

export interface PrebuiltTarget {
  /** `process.platform` and `process.arch`. */
  readonly name: string;
  readonly platform: string;
  readonly arch: string;
  /** As Zig names it. */
  readonly triple: string;
  /** In prebuilt/. */
  readonly file: string;
}

/** The systems that the package brings an addon for. */
export const prebuiltTargets: readonly PrebuiltTarget[];
/** The instruction sets that its addon has kernels for, beside scalar. */
export function targetSets(target: PrebuiltTarget): string[];
/** The words that start Zig, or undefined where there is none. */
export function findZig(): string[] | undefined;
export const noZig: string;
export function crossCompiler(zig: readonly string[], target: PrebuiltTarget): string[];
/** The flags of a source, as this compiler spells them. */
export function crossFlags(flags: readonly string[]): string[];
export function crossLinkFlags(target: PrebuiltTarget): string[];
/** Undefined where the usual ones do. */
export function crossSharedFlags(target: PrebuiltTarget): string[] | undefined;
