// See build-native.js.

export type Compiler = string | string[];

export interface Source {
  readonly folder: string;
  readonly name: string;
  readonly flags: string[];
}

/** Hears how many sources are to be compiled, and of each that it is done. */
export interface CompileProgress {
  add(count: number): void;
  done(): void;
}

export const includeFlags: string[];
export const commonFlags: string[];
/** The instruction sets that kernels are written for on an architecture, beside scalar. */
export function instructionSets(arch: string): string[];
/** The kernels of these sets, else of all, and what chooses among them. */
export function kernelSources(arch: string, sets?: readonly string[]): Source[];
export function findCompiler(): string | undefined;
export function runCompiler(compiler: Compiler, args: readonly string[]): Promise<void>;
/** Gives the paths of the objects. */
export function compileObjects(options: {
  compiler: Compiler;
  arch: string;
  sources: readonly Source[];
  progress?: CompileProgress;
}): Promise<string[]>;
/** Those that an addon for this machine alone needs beside scalar. */
export function setsOfThisMachine(compiler: Compiler, arch?: string): Promise<string[]>;
/** Gives whether anything was built. */
export function buildNative(options: {
  compiler: Compiler;
  output: string;
  arch?: string;
  platform?: string;
  sets?: readonly string[];
  spell?: (flags: string[]) => string[];
  extraFlags?: string[];
  shared?: string[] | undefined;
  linkFlags?: string[];
  headers?: Promise<void>;
  progress?: CompileProgress;
}): Promise<boolean>;
