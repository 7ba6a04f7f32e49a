// What scripts find in their global scope: getContext, __ and console. The file is a function
// of the job, in JSON, and of the functions of the host.
(function (text, host) {
  "use strict";
  const { parse, stringify } = JSON;
  const { elapsed, operate, log, sizeOf } = host;
  const job = parse(text);
  const queue = [];
  let head = 0, writes = 0, bytes = 0;
  let request = job.request === undefined ? undefined : stringify(job.request);
  let changed = false, response = job.response, answered = false;
  const header = Object.assign(Object.create(null), job.values);

  function asText(v) {
    if (typeof v === "string") return v;
    if (typeof v === "object" && v !== null && !(v instanceof Error)) return stringify(v);
    return String(v);
  }

  // A line of console.log: the first argument may have %s and the like.
  function line(args) {
    let at = 1, first = args[0];
    if (typeof first === "string") {
      first = first.replace(/%[sdifjoO%]/g, (mark) => {
        if (mark === "%%") return "%";
        if (at >= args.length) return mark;
        const v = args[at++];
        return mark === "%d" || mark === "%f" ? String(Number(v)) : mark === "%i" ? String(parseInt(v, 10)) : asText(v);
      });
    } else if (args.length > 0) {
      first = asText(first);
    }
    const words = args.length > 0 ? [first] : [];
    for (; at < args.length; at++) words.push(asText(args[at]));
    log(words.join(" "));
  }
  const console = { log: (...args) => line(args) };
  console.info = console.warn = console.error = console.debug = console.log;

  function failureOf(f) {
    const e = new Error(f.message);
    e.number = f.number;
    e.body = f.message;
    return e;
  }

  // submit puts an operation into the queue. It returns false, and does nothing, if the
  // script has had most of its time, or has written all that a transaction can hold.
  function submit(operation, callback, write) {
    if (callback !== undefined && callback !== null && typeof callback !== "function") {
      throw new TypeError("the callback is not a function");
    }
    const text = stringify(operation);
    if (elapsed() >= job.acceptMillis || queue.length - head >= 10000) return false;
    if (write) {
      const { id } = operation.document || {};
      const size = sizeOf(text) + (job.each || 0) + (typeof id === "string" ? sizeOf(id) : 0);
      if (writes + 1 > job.writes || bytes + size > job.bytes) return false;
      writes++;
      bytes += size;
    }
    queue.push({ text, callback });
    return true;
  }

  // step carries out the first operation of the queue and calls its callback.
  function step() {
    if (head === queue.length) return false;
    const { text, callback } = queue[head];
    queue[head++] = undefined;
    const answer = parse(operate(text));
    if (answer.failure) {
      const failure = failureOf(answer.failure);
      if (!callback) throw failure;
      callback(failure, undefined, {});
      return true;
    }
    if (callback) {
      const options = { requestId: String(head), currentCollectionSizeInMB: 0, maxCollectionSizeInMB: 0 };
      if (answer.continuation) options.continuation = answer.continuation;
      callback(undefined, answer.resource === undefined ? {} : answer.resource, options);
    }
    return true;
  }

  // The options of an operation may be left out.
  function optional(options, callback) {
    if (typeof options === "function") return [{}, options];
    return [options || {}, callback];
  }

  function linkOf(link) {
    if (typeof link !== "string" || link === "") throw new TypeError("the link is not a string: " + String(link));
    return link;
  }

  function documentOf(body) {
    const document = typeof body === "string" ? parse(body) : body;
    if (typeof document !== "object" || document === null) throw new TypeError("the document is not an object");
    return document;
  }

  function writeAs(verb) {
    return (link, body, options, callback) => {
      [options, callback] = optional(options, callback);
      return submit({ verb, document: documentOf(body), etag: options.etag, fixedID: !!options.disableAutomaticIdGeneration }, callback, true);
    };
  }

  function queryDocuments(link, query, options, callback) {
    [options, callback] = optional(options, callback);
    const spec = typeof query === "string" ? { query } : query;
    if (typeof spec !== "object" || spec === null || typeof spec.query !== "string") {
      throw new TypeError("the query is neither a string nor an object with query and parameters");
    }
    return submit({
      verb: "query", query: spec.query, parameters: spec.parameters, pageSize: options.pageSize, continuation: options.continuation || undefined,
    }, callback, false);
  }

  const collection = {
    getSelfLink: () => job.self,
    getAltLink: () => job.link,
    createDocument: writeAs("create"),
    upsertDocument: writeAs("upsert"),
    readDocument(link, options, callback) {
      [options, callback] = optional(options, callback);
      return submit({ verb: "read", link: linkOf(link) }, callback, false);
    },
    readDocuments(link, options, callback) {
      return queryDocuments(link, "SELECT * FROM c", options, callback);
    },
    queryDocuments,
    replaceDocument(link, body, options, callback) {
      [options, callback] = optional(options, callback);
      return submit({ verb: "replace", link: linkOf(link), document: documentOf(body), etag: options.etag }, callback, true);
    },
    deleteDocument(link, options, callback) {
      [options, callback] = optional(options, callback);
      return submit({ verb: "delete", link: linkOf(link), etag: options.etag }, callback, true);
    },
  };

  // Queries by functions: filter, map, pluck, flatten, sortBy, and chain() of several.
  const steps = {
    filter: (f) => (feed) => feed.filter(f),
    map: (f) => (feed) => feed.map(f),
    pluck: (name) => (feed) => feed.map((d) => d[name]),
    flatten: (shallow) => (feed) => feed.flat(shallow ? 1 : Infinity),
    sortBy: (f) => (feed) => feed.map((d) => [f(d), d]).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, d]) => d),
    sortByDescending: (f) => (feed) => steps.sortBy(f)(feed).reverse(),
  };
  function evaluate(list, options, callback) {
    [options, callback] = optional(options, callback);
    const isAccepted = queryDocuments(job.self, "SELECT * FROM c", { pageSize: -1, ...options }, (err, feed, more) => {
      if (err) {
        if (!callback) throw err;
        return callback(err, undefined, more);
      }
      const result = list.reduce((all, f) => f(all), feed);
      if (callback) return callback(undefined, result, more);
      setResponse(result);
    });
    return { isAccepted };
  }
  collection.chain = () => {
    const list = [], chain = {};
    for (const name of Object.keys(steps)) {
      chain[name] = (f) => { list.push(steps[name](f)); return chain; };
    }
    chain.value = (options, callback) => evaluate(list, options, callback);
    return chain;
  };
  for (const name of Object.keys(steps)) {
    collection[name] = (f, options, callback) => evaluate(typeof f === "function" && name === "flatten" ? [] : [steps[name](f)], options, callback);
  }

  function setResponse(body) {
    response = body;
    answered = true;
  }
  const requestOf = {
    getBody: () => (request === undefined ? undefined : parse(request)),
    setBody(body) {
      request = typeof body === "string" ? body : stringify(body);
      changed = true;
    },
    getValue: (name) => header[String(name).toLowerCase()],
    setValue(name, value) { header[String(name).toLowerCase()] = String(value); },
    getOperationType: () => job.operation,
  };
  function append(body) {
    setResponse(response === undefined ? String(asText(body)) : asText(response) + asText(body));
  }
  const responseOf = {
    getBody: () => response,
    setBody: setResponse,
    appendBody: append,
    getValue: (name) => (String(name).toLowerCase() === "body" ? response : header[String(name).toLowerCase()]),
    setValue(name, value) {
      if (String(name).toLowerCase() === "body") setResponse(value);
      else header[String(name).toLowerCase()] = String(value);
    },
    appendValue(name, value) {
      name = String(name).toLowerCase();
      if (name === "body") append(value);
      else header[name] = (header[name] || "") + String(value);
    },
    getResourceQuotaCurrentUsage: () => "",
    getMaxResourceQuota: () => "",
  };
  const context = {
    getCollection: () => collection,
    getRequest: () => requestOf,
    getResponse: () => responseOf,
    abort(reason) { throw reason instanceof Error ? reason : new Error(asText(reason)); },
  };
  Object.assign(collection, { request: requestOf, response: responseOf });
  const define = (name, value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  define("getContext", () => context);
  define("__", collection);
  define("console", console);

  return {
    arguments: () => job.args || [],
    step,
    finish() {
      const out = {};
      if (answered && response !== undefined) out.response = response;
      const all = stringify(out);
      return changed && request !== undefined ? all.slice(0, -1) + (all === "{}" ? "" : ",") + '"request":' + request + "}" : all;
    },
  };
});
