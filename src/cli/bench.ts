import type { Command } from 'commander';
import { addBenchOffline } from './bench-offline.ts';
import { addBenchServe } from './bench-serve.ts';

export function addBench(program: Command): void {
  const bench = program.command('bench').description('measure how fast models run');
  addBenchOffline(bench);
  addBenchServe(bench);
}
