// See addon-file.js.

export interface AddonFile {
  /** `elf`, `mach-o` or `pe`. */
  readonly format: string;
  readonly arch: string;
  readonly exports: readonly string[];
  /** Loaded with it. */
  readonly libraries: readonly string[];
  /** Names that come from them. */
  readonly imports: readonly string[];
  /** Names that may come from wherever they are found. */
  readonly hostImports: readonly string[];
  /** The oldest system that it says it runs on: glibc, macOS or Windows. */
  readonly minimum: string;
  readonly signed?: boolean;
}

/** Throws where it is none of the three formats. */
export function readAddonFile(bytes: Uint8Array): AddonFile;
