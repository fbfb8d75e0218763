import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { planted } from './plant.ts';
import { plantedBugs } from './planted-bugs.ts';

it.each(plantedBugs.map((bug) => [bug.name, bug] as const))('has one place to be planted: %s', (_, bug) => {
  const source = readFileSync(new URL(`../../${bug.file}.ts`, import.meta.url), 'utf8');
  expect(planted(source, bug)).not.toBe(source);
});
