import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { resolveConfig } from '../config.ts';
import type { GpuChoice } from './gpu-choice.ts';
import { modelHomesOf, poolModels, poolOptions } from './pool-settings.ts';

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'chairlift-settings-'));
});
afterAll(() => rmSync(home, { recursive: true }));

const configOf = (flags: Readonly<Record<string, unknown>> = {}) =>
  resolveConfig({ flags, environment: {}, home }).config;

const limits = { memoryBytes: 10e9, cores: 6 };
const optionsOf = (flags?: Readonly<Record<string, unknown>>) =>
  poolOptions(configOf(flags), { models: [] }, undefined, limits);

describe('what the pool is told', () => {
  it('follows from what the machine or its container allows, where nobody says otherwise', () => {
    expect(optionsOf()).toEqual({
      models: [],
      memoryBytes: 7e9,
      cores: 6,
      keepAliveMs: 600_000,
      stepTimeoutMs: 60_000,
      engine: { images: true, engine: { direct: false, speculation: true } },
      kv: { kvType: 'f16' },
    });
    expect(optionsOf({ memory: '2GB' }).memoryBytes).toBe(2e9);
  });

  it('has the budget of a GPU: its own memory, or its part of the machine’s', () => {
    const bytesOf = (gpu: Partial<GpuChoice>, flags: Readonly<Record<string, unknown>> = {}) =>
      poolOptions(configOf(flags), { models: [] }, { backend: 'webgpu', ...gpu }, limits).memoryBytes;
    expect(bytesOf({ memoryBytes: 8e9 })).toBe(7.2e9);
    expect(bytesOf({ memoryBytes: 8e9 }, { memory: '2GB' })).toBe(2e9);
    expect(bytesOf({ memoryBytes: 8e9 }, { memory: '12GB' })).toBe(7.2e9);
    expect(bytesOf({ memoryBytes: 8e9 }, { memory: '2GB', gpuMemory: '5GB' })).toBe(5e9);
    expect(bytesOf({ memoryBytes: 8e9 }, { gpuMemory: '5GB' })).toBe(5e9);
    // With unified memory, at most 70 % of it, of the system's limit, and of what was set.
    expect(bytesOf({})).toBe(7e9);
    expect(bytesOf({ unifiedBytes: 6e9 })).toBe(6e9);
    expect(bytesOf({ unifiedBytes: 9e9 })).toBe(7e9);
    expect(bytesOf({ unifiedBytes: 6e9 }, { memory: '2GB' })).toBe(2e9);
    expect(bytesOf({ unifiedBytes: 6e9 }, { memory: '2GB', gpuMemory: '3GB' })).toBe(2e9);
    expect(bytesOf({ unifiedBytes: 6e9 }, { gpuMemory: '8GB' })).toBe(8e9);
  });

  it.each(['cuda', 'webgpu'] as const)('refuses KV of four bits at once where %s computes', (backend) => {
    const config = configOf({ kvType: 'q4' });
    expect(() => poolOptions(config, { models: [] }, { backend }, limits)).toThrow(
      '--kv-type: KV in q4 is for the processor: take q8 with a GPU, or the backend cpu',
    );
    expect(poolOptions(config, { models: [] }, { backend: undefined }, limits).kv.kvType).toBe('q4');
  });

  it('takes 0 for a time without end', () => {
    expect(optionsOf({ keepAlive: '0', stepTimeout: '0' })).toMatchObject({
      keepAliveMs: undefined,
      stepTimeoutMs: undefined,
    });
  });

  it('has every setting of engines and KV in its place', () => {
    const flags = {
      backend: 'cpu',
      threads: '3',
      context: '512',
      maxBatchSize: '4',
      targetStepMs: '40',
      direct: true,
      speculation: 'off',
      kvType: 'q8',
      kvBlocks: '99',
    };
    expect(optionsOf(flags)).toMatchObject({
      engine: {
        backend: 'cpu',
        threads: 3,
        engine: {
          direct: true,
          speculation: false,
          contextLength: 512,
          maxBatchSize: 4,
          budget: { kind: 'adaptive', targetStepMs: 40, maxStepTokens: 2048 },
        },
      },
      kv: { kvType: 'q8', blocks: 99 },
    });
    expect(optionsOf({ maxStepTokens: '64' }).engine.engine?.budget).toEqual({
      kind: 'fixed',
      maxStepTokens: 64,
    });
  });
});

describe('the models of a server', () => {
  it('can be looked for again, with their aliases', () => {
    const modelsFolder = join(home, 'models');
    const [own] = poolModels(configOf({ modelsFolder }), home).models;
    const config = configOf({ modelsFolder, alias: [`mine=${own?.name}`], pin: [own?.name] });
    const { models, find } = poolModels(config, home);
    expect(models.map(({ aliases, pinned }) => ({ aliases, pinned }))).toEqual([
      { aliases: ['mine'], pinned: true },
    ]);
    expect(find?.()).toEqual(models);
    copyFileSync(embeddedModelPath, join(home, 'late.gguf'));
    const late = poolModels(configOf({ modelsFolder: home }), home);
    expect(late.models.map(({ name }) => name)).toContain('late');
    expect(late.models.map(({ name }) => name)).not.toContain(own?.name);
    rmSync(join(home, 'late.gguf'));
    expect(late.find?.().map(({ name }) => name)).toEqual([own?.name]);
  });

  it('are the embedded one only where no other is given, unless that is named', () => {
    const modelsFolder = join(home, 'none');
    const given = join(home, 'given.gguf');
    copyFileSync(embeddedModelPath, given);
    const names = (model: string[]) =>
      poolModels(configOf({ modelsFolder, model }), home).models.map(({ name }) => name);
    expect(names([])).toEqual(['chairlift-demo-14m-q8_0']);
    expect(names([given])).toEqual(['given']);
    expect(names([given, `demo=${embeddedModelPath}`])).toEqual(['given', 'demo']);
  });

  it('are found by their names on the hub, where they are complete', () => {
    const snapshot = join(home, 'hub', 'models--owner--tiny', 'snapshots', 'c0ffee');
    mkdirSync(snapshot, { recursive: true });
    copyFileSync(embeddedModelPath, join(snapshot, 'tiny-Q8_0.gguf'));
    const environment = { HF_HUB_CACHE: join(home, 'hub') };
    const found = (flags: Readonly<Record<string, unknown>>) => {
      const config = configOf({ modelsFolder: join(home, 'none'), ...flags });
      return poolModels(config, home, modelHomesOf(config, home, { environment, home, flags: {} }));
    };
    const path = join(snapshot, 'tiny-Q8_0.gguf');
    expect(found({ model: ['owner/tiny'] }).models).toMatchObject([{ name: 'owner/tiny', path }]);
    expect(found({ model: ['mine=owner/tiny'], draft: ['owner/tiny'] }).models).toMatchObject([
      { name: 'mine', path, draftPath: path },
    ]);
    expect(() => found({ model: ['owner/none'] })).toThrow(
      /--model: owner\/none: .*chairlift pull hf:owner\/none/,
    );
    expect(() => found({ draft: ['owner/none'] })).toThrow(/--draft: owner\/none: .*no model of this name/);
    const shortNames = ['small=owner/tiny:Q8_0', 'large=owner/other'];
    expect(found({ model: ['owner/tiny'], shortNames }).models).toMatchObject([
      { name: 'owner/tiny', aliases: ['small'] },
    ]);
    expect(found({ model: ['small'], shortNames }).models).toMatchObject([
      { name: 'small', path, aliases: [] },
    ]);
    expect(() => found({ shortNames: ['small'] })).toThrow(/--short-names: give name=owner\/repo/);
    expect(() => found({ shortNames: ['small=nothing'] })).toThrow(
      /--short-names: small=nothing names no model/,
    );
    // Models of other programs are served only where they are asked for.
    expect(found({}).models.map(({ name }) => name)).toEqual(['chairlift-demo-14m-q8_0']);
    const half = join(snapshot, 'half-00001-of-00002.gguf');
    copyFileSync(embeddedModelPath, half);
    const { models, broken } = found({ model: ['owner/tiny:Q8_0', 'owner/tiny:half'] });
    expect(models.map(({ name }) => name)).toEqual(['owner/tiny:Q8_0']);
    expect(broken()).toMatchObject([
      { name: 'owner/tiny:half', problem: expect.stringContaining('is missing') },
    ]);
  });

  it('have the chat templates that were chosen for them', () => {
    const file = join(home, 'own.jinja');
    writeFileSync(file, 'own');
    const model = [`a=${embeddedModelPath}`, `b=${embeddedModelPath}`];
    const models = (chatTemplate: string[]) => poolModels(configOf({ model, chatTemplate }), home).models;
    const templates = models(['chatml', `b=${file}`]).map((one) => one.chatTemplate);
    expect(templates).toEqual([
      { template: expect.stringContaining('<|im_start|>'), named: true, replaces: false },
      { template: 'own', named: false, replaces: true },
    ]);
    expect(() => models(['chatmr'])).toThrow(/--chat-template: .*chatmr.*chatml, gemma/);
    expect(() => models(['c=chatml'])).toThrow(/--chat-template: there is no model named c/);
    writeFileSync(file, '{% for %}');
    expect(() => models([file])).toThrow(/--chat-template: the chat template cannot be read/);
  });

  it('write calls as the setting says, all or one of them', () => {
    const path = join(home, 'a.gguf');
    copyFileSync(embeddedModelPath, path);
    const formatOf = (toolFormat: string[]) =>
      poolModels(configOf({ modelsFolder: join(home, 'none'), model: [`a=${path}`], toolFormat }), home)
        .models[0]?.toolFormat;
    expect(formatOf([])).toBeUndefined();
    expect(formatOf(['mistral'])).toBe('mistral');
    expect(formatOf(['mistral', 'a=glm'])).toBe('glm');
    expect(() => formatOf(['morse'])).toThrow(/--tool-format: 'morse' is none of harmony, /);
  });

  it('are refused where none of those given can be served, and no other takes their place', () => {
    const config = configOf({ modelsFolder: join(home, 'none'), model: [join(home, 'nothing.gguf')] });
    expect(() => poolModels(config, home)).toThrow(/--model: .*nothing\.gguf/);
    const folder = mkdtempSync(join(home, 'models-'));
    copyFileSync(embeddedModelPath, join(folder, 'other.gguf'));
    const found = (...model: string[]) => poolModels(configOf({ modelsFolder: folder, model }), home).models;
    expect(() => found(join(home, 'nothing.gguf'))).toThrow(/--model: .*nothing\.gguf/);
    expect(found(join(home, 'nothing.gguf'), embeddedModelPath).map(({ name }) => name)).toContain('other');
  });
});
