// What this process has computed: of simulated nodes, work is measured so, whatever else the machine does.

export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
