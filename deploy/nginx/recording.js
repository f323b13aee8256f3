// Passes an answer on as it comes, and keeps it for the log. Each request has its own `pieces`.
const pieces = [];

function collect(r, data, flags) {
  pieces.push(Buffer.from(data));
  if (flags.last) {
    r.variables.answer = Buffer.concat(pieces).toString();
  }
  r.sendBuffer(data, flags);
}

export default { collect };
