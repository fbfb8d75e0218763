// `chairlift fleet permissions`: what a node of a fleet needs to be allowed at NATS, for the configuration of its servers.

import { type Command, Option } from 'commander';
import { type FleetRole, natsPermissions, permissionsText } from '../fleet/nats-permissions.ts';
import { UsageError } from './usage-error.ts';

interface PermissionFlags {
  readonly role: 'worker' | 'gateway' | 'both';
  readonly fleet: string;
  readonly node?: string;
  readonly json?: true;
}

const roles: Readonly<Record<PermissionFlags['role'], readonly FleetRole[]>> = {
  worker: ['worker'],
  gateway: ['gateway'],
  both: ['worker', 'gateway'],
};

/** An account's template takes the place of a name: NATS fills in that of each user. */
const NAME_OF_USER = '{{name()}}';

export function addPermissions(fleet: Command): void {
  fleet
    .command('permissions')
    .description('print what a node may publish and subscribe at NATS, as its configuration has it')
    .addOption(
      new Option('--role <role>', 'what the node is').choices(Object.keys(roles)).makeOptionMandatory(),
    )
    .option('--fleet <name>', 'name of the fleet', 'main')
    .option('--node <name>', `name of the node, or ${NAME_OF_USER}; every node of that role where unset`)
    .option('--json', 'print JSON')
    .action(show);
}

function show({ role, fleet, node, json }: PermissionFlags): void {
  if (!/^[\w-]{1,64}$/.test(fleet)) throw new UsageError('--fleet: has letters, digits, - and _ alone');
  if (node !== undefined && node !== NAME_OF_USER && !/^[\w-]{1,64}$/.test(node)) {
    throw new UsageError(`--node: has letters, digits, - and _ alone, or is ${NAME_OF_USER}`);
  }
  const permissions = natsPermissions({ fleet, roles: roles[role], node });
  process.stdout.write(`${json ? JSON.stringify(permissions) : permissionsText(permissions)}\n`);
  if (node === undefined && role !== 'gateway') {
    process.stderr.write(
      'Workers that share these can read each other’s prompts: --node gives each its own.\n',
    );
  }
}
