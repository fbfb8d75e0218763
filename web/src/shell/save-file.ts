// Hands a file to the browser to be saved.

export function saveFile(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  // What file systems do not take.
  link.download = name.replaceAll(/[\\/:*?"<>|\s]+/g, ' ').trim();
  link.click();
  URL.revokeObjectURL(link.href);
}
