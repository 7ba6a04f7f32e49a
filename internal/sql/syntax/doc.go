// Package syntax reads the text of a query into a tree, and prints trees as texts.
//
//	text ── Parse ──► Query ── Bind (parameters) ──► Query
//	     └─ ParseWith (parameters) ──┼────────────────────►
//	                                 └── String ──► text
//
// The grammar, in the order of precedence from weak to strong:
//
//	query     SELECT [DISTINCT] [TOP count] (* | VALUE expr | item, …)
//	          [FROM source [JOIN source]…] [WHERE expr] [GROUP BY expr, …]
//	          [ORDER BY expr [ASC|DESC], …] [OFFSET count] [LIMIT count]
//	item      expr [[AS] name], expr AS "name"
//	source    name IN collection | collection [[AS] name]
//	collection  name with .member, ["member"] and [index] | (query)
//	expr      expr ? expr : expr
//	          expr ?? expr
//	          expr OR expr
//	          expr AND expr
//	          NOT expr
//	          expr [NOT] BETWEEN expr AND expr, [NOT] IN (expr, …), [NOT] LIKE expr [ESCAPE 'c']
//	          |   ^   &   = != <>   < <= > >=   << >> >>>   ||   + -   * / %
//	          - + ~ expr
//	          expr.member   expr[expr]   expr[], which stands for any element: only in conditions
//	                                     that compare a path with a constant
//	          constant, @parameter, name, function(expr, …), udf.function(expr, …),
//	          {name: expr, …}, [expr, …], (expr), (query), EXISTS(query), ARRAY(query)
//
// Keywords and names of functions are written in any case. Comments begin with -- and end
// with the line, or stand between /* and */.
//
// # Invariants
//
//  1. Parse never panics. Its work is linear in the length of the text, and its memory a
//     multiple of it: the text, the nesting and the height of the tree are bounded.
//  2. An error is a *Error: it tells line and column, what was expected and what
//     was found.
//  3. Parse of a printed tree gives an equal tree.
//  4. A tree is not changed after Parse; Bind and Rewrite make new ones.
package syntax
