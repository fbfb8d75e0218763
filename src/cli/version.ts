import type { Command } from 'commander';

/** As `--version`, with what runs it. */
export function addVersion(program: Command): void {
  program
    .command('version')
    .description('show the version')
    .action(() => {
      const { node } = process.versions;
      process.stdout.write(
        `chairlift ${program.version()} (Node.js ${node}, ${process.platform} ${process.arch})\n`,
      );
    });
}
