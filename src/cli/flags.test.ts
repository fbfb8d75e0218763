import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { addConfigOptions } from './flags.ts';

function given(...flags: string[]) {
  const command = addConfigOptions(new Command('serve').exitOverride());
  return command.parse(flags, { from: 'user' }).opts().vision;
}

describe('a switch that is on by default', () => {
  it('is turned off by --no-, and said nothing of where no flag is given, so that other sources count', () => {
    expect(given()).toBeUndefined();
    expect(given('--no-vision')).toBe(false);
    expect(given('--vision')).toBe(true);
  });

  it('has the flag that changes something in the help', () => {
    const help = addConfigOptions(new Command('serve')).helpInformation();
    expect(help).toContain('--no-vision');
    expect(help).not.toMatch(/ --vision/);
  });
});
