// The names of 'chairlift/engine', which programs build on: a name that goes, or comes, is a decision and belongs in the
// changelog. What the parts do is tested beside each of them; docs/library.md has the programs that drive them.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import * as parts from '../src/engine.ts';

const pathOf = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const textOf = (name: string) => readFileSync(pathOf(name), 'utf8');

const values = [
  'BLOCK_TOKENS',
  'BlockPool',
  'BlockTables',
  'Engine',
  'LocalEngine',
  'PrefixCache',
  'Scheduler',
  'Sequence',
  'blocksFor',
  'checkCacheIntegrity',
  'checkIntegrity',
  'chooseBackend',
  'embeddedModelPath',
  'openLocalModel',
  'planBatch',
  'sampleRows',
  'validateSampling',
];

const types = [
  'AddResult',
  'AnswerRequest',
  'Backend',
  'BackendChoice',
  'BackendName',
  'BackendOptions',
  'Batch',
  'BatchStates',
  'BlockDemand',
  'BlockHolder',
  'BlockList',
  'BlockMemory',
  'BlockStats',
  'BudgetOptions',
  'CreateBackend',
  'EmbedRequest',
  'EndReason',
  'EngineClient',
  'EngineMonitor',
  'EngineOptions',
  'EngineRequest',
  'EngineStats',
  'EngineSubscriber',
  'EngineSubscription',
  'FinishEvent',
  'KvType',
  'LocalModel',
  'LocalModelOptions',
  'ModelSpec',
  'PrefixNode',
  'Priority',
  'ReportListener',
  'RequestError',
  'RequestErrorCode',
  'RequestEvent',
  'SampleResult',
  'SampleRow',
  'SampleRows',
  'SamplingParameters',
  'SamplingRequest',
  'SamplingValidation',
  'SchedulerOptions',
  'SchedulerStats',
  'SequenceOptions',
  'SequenceState',
  'StepItem',
  'StepLoad',
  'StepPlan',
  'StepReport',
  'StepResult',
  'StepSummary',
  'StepTimes',
  'TokenEvent',
  'Tokenizer',
  'WeightSource',
];

/** As the entry writes them: `export type { A, B } from` and `export { type A, B } from`. */
function typesOf(source: string): string[] {
  return [...source.matchAll(/^export (type )?\{([^}]*)\}/gm)].flatMap(([, all, names = '']) =>
    names
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '' && (all !== undefined || name.startsWith('type ')))
      .map((name) => name.replace(/^type /, '')),
  );
}

describe('chairlift/engine', () => {
  it('exports these classes and functions', () => {
    expect(Object.keys(parts).sort()).toEqual(values);
  });

  it('exports these types', () => {
    expect(typesOf(textOf('src/engine.ts')).sort()).toEqual(types);
  });

  it('documents every class and function', () => {
    const page = textOf('docs/library.md');
    for (const name of values) expect(page, name).toContain(`\`${name}\``);
  });

  it('is an entry of the package, with types', () => {
    const { exports } = JSON.parse(textOf('package.json'));
    expect(exports['./engine']).toEqual({ types: './dist/engine.d.ts', default: './dist/engine.js' });
  });

  it('is loaded by name from modules, and by require where Node can', () => {
    const run = (type: string, code: string) =>
      execFileSync(process.execPath, [`--input-type=${type}`, '-e', code], {
        cwd: pathOf('.'),
        encoding: 'utf8',
      });
    const tell = 'console.log(Object.keys(parts).sort().join())';
    expect(run('module', `import * as parts from 'chairlift/engine'; ${tell}`)).toBe(`${values.join()}\n`);
    const canRequire = (process.features as { readonly require_module?: boolean }).require_module === true;
    if (canRequire) {
      expect(run('commonjs', `const parts = require('chairlift/engine'); ${tell}`)).toBe(
        `${values.join()}\n`,
      );
    }
  });
});
