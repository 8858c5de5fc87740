package shell

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// exprLevels are the operators of expr, the weakest ones first.
var exprLevels = [][]string{{"|"}, {"&"}, {"=", "!=", "<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}, {":"}}

var (
	errExprSyntax  = errors.New("syntax error")
	errExprInteger = errors.New("non-integer argument")
	errExprZero    = errors.New("division by zero")
	errExprDepth   = errors.New("too many operators in each other")
)

// exprParser parses and evaluates the arguments of expr.
type exprParser struct {
	rest         []string // the arguments not yet parsed
	depth, limit int      // of operands in each other
}

// expr evaluates an expression. The exit code is 1 if the value is empty or 0, and 2 for an error.
func expr(c *invocation) int {
	e := &exprParser{rest: c.args[1:], limit: c.in.limits.Depth}
	value, err := e.binary(0)
	if err == nil && len(e.rest) > 0 {
		err = errExprSyntax
	}
	if err != nil {
		c.errorf("%v", err)
		return 2
	}
	c.printf("%s\n", value)
	return oneIf(isFalse(value))
}

// isFalse reports whether a value is empty or 0.
func isFalse(value string) bool { return strings.Trim(value, "-0") == "" && value != "-" }

// binary evaluates the operators of a level and of the levels that bind stronger.
func (e *exprParser) binary(level int) (string, error) {
	if level == len(exprLevels) {
		return e.operand()
	}
	left, err := e.binary(level + 1)
	for err == nil && len(e.rest) > 0 && slices.Contains(exprLevels[level], e.rest[0]) {
		operator := e.rest[0]
		e.rest = e.rest[1:]
		var right string
		if right, err = e.binary(level + 1); err == nil {
			left, err = exprValue(left, operator, right)
		}
	}
	return left, err
}

// operand evaluates a word, an expression in brackets or a function.
func (e *exprParser) operand() (string, error) {
	if e.depth++; e.depth > e.limit {
		return "", errExprDepth
	}
	defer func() { e.depth-- }()
	if len(e.rest) == 0 {
		return "", errExprSyntax
	}
	word := e.rest[0]
	e.rest = e.rest[1:]
	switch {
	case word == "(":
		value, err := e.binary(0)
		if err != nil || len(e.rest) == 0 || e.rest[0] != ")" {
			return "", cmp.Or(err, errExprSyntax)
		}
		e.rest = e.rest[1:]
		return value, nil
	case word == "length" && len(e.rest) > 0:
		value, err := e.operand()
		return strconv.Itoa(len(value)), err
	}
	return word, nil
}

// exprValue returns the value of an operator.
func exprValue(left, operator, right string) (string, error) {
	a, errA := strconv.ParseInt(left, 10, 64)
	b, errB := strconv.ParseInt(right, 10, 64)
	numbers := errA == nil && errB == nil
	order := strings.Compare(left, right)
	if numbers {
		order = cmp.Compare(a, b)
	}
	truth := func(is bool) (string, error) { return strconv.Itoa(1 - oneIf(!is)), nil }
	switch operator {
	case "|":
		if isFalse(left) {
			return right, nil
		}
		return left, nil
	case "&":
		if isFalse(left) || isFalse(right) {
			return "0", nil
		}
		return left, nil
	case "=":
		return truth(order == 0)
	case "!=":
		return truth(order != 0)
	case "<":
		return truth(order < 0)
	case "<=":
		return truth(order <= 0)
	case ">":
		return truth(order > 0)
	case ">=":
		return truth(order >= 0)
	case ":":
		return exprMatch(left, right)
	}
	switch {
	case !numbers:
		return "", errExprInteger
	case b == 0 && (operator == "/" || operator == "%"):
		return "", errExprZero
	}
	switch operator {
	case "+":
		a += b
	case "-":
		a -= b
	case "*":
		a *= b
	case "/":
		a /= b
	case "%":
		a %= b
	}
	return strconv.FormatInt(a, 10), nil
}

// exprMatch matches a value from its beginning. It returns what the group of the expression has matched or, without a
// group, the number of characters.
func exprMatch(value, text string) (string, error) {
	r, err := expression("^"+strings.TrimPrefix(text, "^"), false, false)
	if err != nil {
		return "", err
	}
	found := r.FindStringSubmatchIndex(value)
	switch matched := found != nil && found[0] == 0; {
	case r.NumSubexp() == 0 && matched:
		return strconv.Itoa(found[1]), nil
	case r.NumSubexp() == 0:
		return "0", nil
	case matched && found[2] >= 0:
		return value[found[2]:found[3]], nil
	}
	return "", nil
}
