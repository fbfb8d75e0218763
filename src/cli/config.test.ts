import { describe, expect, it } from 'vitest';
import { chosenSettings, effectiveSettings, withoutSecrets } from '../app/effective-settings.ts';
import { resolveConfig } from '../config.ts';
import { layOut } from './config.ts';

describe('chairlift config', () => {
  it('shows no passwords and no tokens', () => {
    const environment = {
      CHAIRLIFT_NATS_PASSWORD: 'flounder',
      CHAIRLIFT_NATS_TOKEN: 'flounder',
      CHAIRLIFT_JOIN: 'nats://u:floun/flounder@a:4222,u:flounder@b:4222,nats://c:4222',
      CHAIRLIFT_DATABASE: 'postgres://u:flounder@host/name',
      CHAIRLIFT_UPSTREAMS: JSON.stringify([
        { name: 'a', url: 'https://u:flounder@api.example/v1', models: ['x'], key: 'flounder' },
        { name: 'b', url: 'https://api.example/v1', models: ['y'], keyVariable: 'B_KEY' },
      ]),
      B_KEY: 'flounder',
    };
    const shown = withoutSecrets(resolveConfig({ flags: {}, environment, home: '/nonexistent' }));
    expect(JSON.stringify(shown)).not.toContain('floun');
    expect(shown.config.natsPassword).toBe('(hidden)');
    expect(shown.config.join).toEqual(['nats://a:4222', 'b:4222', 'nats://c:4222']);
    expect(shown.sources.natsToken).toBe('environment');
  });

  it('shows what is unset as unset', () => {
    const shown = withoutSecrets(resolveConfig({ flags: {}, environment: {}, home: '/nonexistent' }));
    expect(shown.config.natsPassword).toBeUndefined();
  });

  it('shows what this machine would choose for what nobody has given', async () => {
    const resolved = resolveConfig({
      flags: { threads: '3', memory: '2GB' },
      environment: {},
      home: '/home/ann',
    });
    const chosen = await chosenSettings(resolved.config, '/home/ann', async () => ({ backend: undefined }));
    const rows = layOut(effectiveSettings(resolved, chosen)).split('\n');
    const row = (name: string) => rows.find((one) => one.startsWith(`${name} `))?.split(/ {2,}/);
    expect(row('modelsFolder')).toEqual(['modelsFolder', '/home/ann/.chairlift/models', 'chosen here']);
    expect(row('backend')?.[1]).toMatch(/^(cpu|reference)$/);
    expect(row('threads')).toEqual(['threads', '3', 'flag']);
    expect(row('memory')).toEqual(['memory', '2GB', 'flag']);
    expect(row('natsUser')).toEqual(['natsUser', '(unset)', 'default']);
    const gpu = { backend: 'cuda', memoryBytes: 8e9 } as const;
    const { memory, ...onGpu } = await chosenSettings(
      resolveConfig({ flags: {}, environment: {}, home: '/' }).config,
      '/',
      async () => gpu,
    );
    expect(onGpu).toMatchObject({ backend: 'cuda', gpuMemory: 7.2e9 });
    expect(memory).toBeUndefined();
  });
});
