import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../config.ts';
import { forPeople } from './config.ts';

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
    const shown = forPeople(resolveConfig({ flags: {}, environment, home: '/nonexistent' }));
    expect(JSON.stringify(shown)).not.toContain('floun');
    expect(shown.config.natsPassword).toBe('(hidden)');
    expect(shown.config.join).toEqual(['nats://a:4222', 'b:4222', 'nats://c:4222']);
    expect(shown.sources.natsToken).toBe('environment');
  });

  it('shows what is unset as unset', () => {
    const shown = forPeople(resolveConfig({ flags: {}, environment: {}, home: '/nonexistent' }));
    expect(shown.config.natsPassword).toBeUndefined();
  });
});
