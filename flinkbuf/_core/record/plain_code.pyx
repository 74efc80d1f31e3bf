"""Reads off the bytecode of a function what it says, if that is something that can be done in C.

Bytecode is run on parts in place of values. Where it goes two ways it is run both ways, to a part that has them both;
so there is no way back. A part that was put into a variable, or thrown away, has to be one that is evaluated in any
case: the function would have evaluated it, too, and may have raised.
"""

from cpython.number cimport (
    PyNumber_Add, PyNumber_And, PyNumber_FloorDivide, PyNumber_Lshift, PyNumber_Multiply, PyNumber_Or,
    PyNumber_Remainder, PyNumber_Rshift, PyNumber_Subtract, PyNumber_TrueDivide, PyNumber_Xor,
)
from cpython.object cimport Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, Py_NE

from flinkbuf._core.record.plain_node cimport (
    ARGUMENT, ATTRIBUTE, BINARY, BRANCH, CELL, COMPARE, CONSTANT, GLOBAL, IN, IS, ITEM, MAX_KEPT, NOT, TUPLE, TYPE_IS,
    UNPACKED, node_kind,
)

cdef enum:
    MAX_STEPS = 400     # instructions, each as often as there are ways to it
    WHOLE = 1 << 30     # the end of a slice that has none

cdef dict COMPARISONS = {"<": Py_LT, "<=": Py_LE, "==": Py_EQ, "!=": Py_NE, ">": Py_GT, ">=": Py_GE}
cdef dict OLD_OPERATORS = {
    "BINARY_ADD": "+", "BINARY_SUBTRACT": "-", "BINARY_MULTIPLY": "*", "BINARY_FLOOR_DIVIDE": "//",
    "BINARY_MODULO": "%", "BINARY_TRUE_DIVIDE": "/", "BINARY_AND": "&", "BINARY_OR": "|", "BINARY_XOR": "^",
    "BINARY_LSHIFT": "<<", "BINARY_RSHIFT": ">>",
}
OLD_OPERATORS.update([(name.replace("BINARY", "INPLACE"), sign) for name, sign in OLD_OPERATORS.items()])
cdef frozenset NOTHING = frozenset([
    "RESUME", "PRECALL", "CACHE", "NOP", "EXTENDED_ARG", "COPY_FREE_VARS", "NOT_TAKEN",
])
cdef object NULL_MARK = object()    # what CALL finds beside a function


cdef Node read_code(object function, object code, tuple arguments, int* kept_count):
    """What a function says of the arguments with these names; None: something else than can be done in C.

    `kept_count` is how many parts are used more than once.
    """
    cdef Reading reading = Reading(function, code, arguments)
    cdef Node node = reading.read(0, [], reading.arguments, [], [])
    if node is not None:
        kept_count[0] = keep_parts(node)
    return None if node is None or kept_count[0] > MAX_KEPT else node


cdef class Reading:
    """The bytecode of one function."""

    cdef object function, code
    cdef list instructions
    cdef dict places        # of instructions, by their offsets
    cdef dict arguments
    cdef Py_ssize_t steps

    def __init__(self, function, code, names):
        import dis

        self.function, self.code = function, code
        self.instructions = list(dis.get_instructions(code))
        self.places = {each.offset: place for place, each in enumerate(self.instructions)}
        self.arguments = {}
        for place, name in enumerate(names):
            argument = self.arguments[name] = made(ARGUMENT)
            (<Node>argument).start = place

    cdef Node read(self, Py_ssize_t at, list stack, dict variables, list unread, list done):
        """What is returned from here on; None: it cannot be done.

        Parameters
        ----------
        at : int
            The next instruction.
        stack : list
            Parts, names of globals, and what else stands for a value. It is changed, as are the next two.
        variables : dict
            Parts by name.
        unread : list
            Parts that were put into a variable, or thrown away.
        done : list
            Parts that were evaluated on the way here.
        """
        cdef Node node
        while at < len(self.instructions):
            each = self.instructions[at]
            at += 1
            self.steps += 1
            if self.steps > MAX_STEPS:
                return None
            name, value = each.opname, each.argval
            if name in NOTHING or name == "TO_BOOL" and self.looks_at_truth(at):
                continue
            if name == "RETURN_VALUE" or name == "RETURN_CONST":
                node = made(CONSTANT, value) if name == "RETURN_CONST" else self.pop(stack)
                return node if node is not None and not stack and are_evaluated(unread, node, done) else None
            if "JUMP" in name:
                if "BACKWARD" in name or value not in self.places or <Py_ssize_t>self.places[value] < at:
                    return None
                if name in ("JUMP_FORWARD", "JUMP_ABSOLUTE"):
                    at = self.places[value]
                    continue
                return self.branch(name, at, self.places[value], stack, variables, unread, done)
            if not self.step(each, name, value, stack, variables, unread):
                return None
        return None

    cdef bint looks_at_truth(self, Py_ssize_t at) except -1:
        """Whether an instruction asks of what is on the stack only whether it is true."""
        return at < len(self.instructions) and self.instructions[at].opname.startswith(("POP_JUMP_IF", "UNARY_NOT"))

    cdef Node branch(self, str name, Py_ssize_t here, Py_ssize_t there, list stack, dict variables, list unread,
                     list done):
        """What follows a jump that depends on what is on the stack."""
        cdef list stays = list(stack)
        cdef Node condition = self.pop(stack)
        cdef Node node
        if condition is None or not ("IF_FALSE" in name or "IF_TRUE" in name or "IF_NONE" in name or
                                     "IF_NOT_NONE" in name):
            return None
        if "NONE" in name:
            condition = made(IS, None, condition)
        node = made(BRANCH, None, condition)
        done = [*done, condition]
        jumped = self.read(there, stays if "OR_POP" in name else list(stack), dict(variables), list(unread), done)
        if jumped is None:
            return None
        stayed = self.read(here, stack, dict(variables), list(unread), done)
        if stayed is None:
            return None
        jumps_if_true = "IF_TRUE" in name or "IF_NONE" in name
        node.right, node.other = (jumped, stayed) if jumps_if_true else (stayed, jumped)
        return node

    cdef Node pop(self, list stack):
        """What was put on the stack last, if it is a part."""
        cdef Node node
        if not stack:
            return None
        top = stack.pop()
        if type(top) is str:
            node = made(GLOBAL, top)
            return node if self.use_names(node) else None
        return top if isinstance(top, Node) else None

    cdef bint use_names(self, Node node) except -1:
        """Have a part look for names where the function does; False: these are dicts that look up otherwise."""
        if type(self.function.__globals__) is not dict or type(self.function.__builtins__) is not dict:
            return False
        node.globals_, node.builtins_ = self.function.__globals__, self.function.__builtins__
        return True

    cdef bint step(self, object each, str name, object value, list stack, dict variables, list unread) except -1:
        """Run an instruction; False: it is something else."""
        cdef Node node, right
        if name in ("LOAD_FAST", "LOAD_FAST_BORROW"):
            stack.append(variables.get(value))
            return stack[len(stack) - 1] is not None
        if name == "LOAD_FAST_LOAD_FAST" or name == "LOAD_FAST_BORROW_LOAD_FAST_BORROW":
            stack += [variables.get(variable) for variable in value]
            return None not in stack
        if name == "STORE_FAST" or name == "POP_TOP":
            node = self.pop(stack)
            if node is None:
                return False
            unread.append(node)
            if name == "STORE_FAST":
                variables[value] = node
            return True
        if name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            stack.append(made(CONSTANT, value))
            return True
        if name == "LOAD_DEREF":
            if value not in self.code.co_freevars:
                return False
            stack.append(made(CELL, self.function.__closure__[self.code.co_freevars.index(value)]))
            return True
        if name == "PUSH_NULL":
            stack.append(NULL_MARK)
            return True
        if name == "LOAD_GLOBAL":
            if "NULL + " in each.argrepr:
                stack.append(NULL_MARK)
            stack.append(value)
            if " + NULL" in each.argrepr:
                stack.append(NULL_MARK)
            return True
        if name in ("SWAP", "COPY", "DUP_TOP", "ROT_TWO", "ROT_THREE"):
            return put_again(name, each.arg, stack)
        if name == "IS_OP":
            return self.put_is(each.arg, stack)
        if name == "CALL" or name == "CALL_FUNCTION":
            return self.put_type(each.arg, stack)
        if name == "UNPACK_SEQUENCE":
            node = self.pop(stack)
            if node is None or value == 0:
                return False
            for place in range(value - 1, -1, -1):
                stack.append(unpacked(node, place, value))
            return True
        if name == "BUILD_TUPLE":
            parts = [self.pop(stack) for _ in range(value)]
            if not parts or None in parts:
                return False
            node = made(TUPLE)
            node.parts = tuple(parts[::-1])
            stack.append(node)
            return True
        if name == "BUILD_SLICE" or name == "BINARY_SLICE":
            right, node = self.pop(stack), self.pop(stack)
            if each.arg == 3 or right is None or node is None or right.kind != CONSTANT or node.kind != CONSTANT:
                return False
            stack.append(made(CONSTANT, slice(node.constant, right.constant)))
            if name == "BUILD_SLICE":
                return True
        right = None
        if name not in ("LOAD_ATTR", "UNARY_NOT", "TO_BOOL"):
            right = self.pop(stack)
            if right is None:
                return False
        if not stack or name == "LOAD_ATTR" and type(stack[len(stack) - 1]) is str:
            return False  # of a global, such as a module
        node = self.pop(stack)
        if node is None:
            return False
        node = self.operated(each, name, value, node, right)
        if node is not None:
            stack.append(node)
        return node is not None

    cdef Node operated(self, object each, str name, object value, Node left, Node right):
        """What an instruction makes of the one or two parts that it takes; None: it is something else."""
        cdef Node node
        if name == "LOAD_ATTR":
            node = made(ATTRIBUTE, value, left)
            node.is_field = left.kind == ARGUMENT
            return None if "NULL" in each.argrepr else node
        if name == "UNARY_NOT":
            return made(NOT, None, left)
        if name == "TO_BOOL":
            return made(NOT, None, made(NOT, None, left))
        if name == "CONTAINS_OP":
            if right.kind != CONSTANT or type(right.constant) not in (tuple, frozenset):
                return None
            return opposite(made(IN, right.constant, left), each.arg)
        if name in ("BINARY_SUBSCR", "BINARY_SLICE") or name == "BINARY_OP" and each.argrepr == "[]":
            return item_of(left, right)
        if name == "COMPARE_OP":
            return compared(each.argrepr.removeprefix("bool(").removesuffix(")"), left, right)
        if name == "BINARY_OP" or name in OLD_OPERATORS:
            # What has operators here is never changed in place.
            return binary(OLD_OPERATORS.get(name) or each.argrepr.removesuffix("="), left, right)
        return None

    cdef bint put_is(self, object is_not, list stack) except -1:
        """type(part) is name, or part is constant."""
        cdef Node node, right
        if len(stack) < 2:
            return False
        called = stack[len(stack) - 2]
        if type(called) is tuple:
            named = stack.pop()
            stack.pop()
            if type(named) is not str:
                return False
            node = made(TYPE_IS, named, called[1])
            if not self.use_names(node):
                return False
        else:
            right, node = self.pop(stack), self.pop(stack)
            if right is None or node is None or right.kind != CONSTANT:
                return False
            if right.constant is not None and right.constant is not True and right.constant is not False:
                return False
            node = made(IS, right.constant, node)
        stack.append(opposite(node, is_not))
        return True

    cdef bint put_type(self, object count, list stack) except -1:
        """type(part)."""
        cdef Node node
        if count != 1 or len(stack) < 2:
            return False
        node = self.pop(stack)
        if node is None:
            return False
        called = [stack.pop()]
        if stack and (called[0] is NULL_MARK or stack[len(stack) - 1] is NULL_MARK):
            called.append(stack.pop())
        stack.append(("type", node))
        return "type" in called


# ---- parts


cdef Node made(node_kind kind, constant=None, Node left=None):
    cdef Node node = Node.__new__(Node)
    node.kind, node.constant, node.left = kind, constant, left
    return node


cdef Node opposite(Node node, object is_wanted):
    return made(NOT, None, node) if is_wanted else node


cdef bint put_again(str name, object count, list stack) except -1:
    """What is on the stack in another order, or twice."""
    cdef Py_ssize_t top = len(stack) - 1, place
    place = top - 1 if name == "ROT_TWO" else top - 2 if name == "ROT_THREE" else top
    if name in ("SWAP", "COPY"):
        place = top + 1 - <Py_ssize_t>count
    if place < 0:
        return False
    if name == "COPY" or name == "DUP_TOP":
        stack.append(stack[place])
    elif name == "ROT_THREE":
        stack.insert(place, stack.pop())
    else:
        stack[top], stack[place] = stack[place], stack[top]
    return True


cdef Node item_of(Node left, Node right):
    """left[constant]."""
    cdef Node node
    constant = right.constant
    if right.kind != CONSTANT:
        return None
    node = made(ITEM, constant, left)
    if type(constant) is int and -WHOLE < constant < WHOLE:
        node.start, node.is_field = constant, left.kind == ARGUMENT
    elif type(constant) is slice and constant.step is None:
        for each in (constant.start, constant.stop):
            if each is not None and (type(each) is not int or not -WHOLE < each < WHOLE):
                return None
        node.start = 0 if constant.start is None else constant.start
        node.stop = WHOLE if constant.stop is None else constant.stop
    elif type(constant) is not str:
        return None
    return node


cdef Node unpacked(Node left, Py_ssize_t place, Py_ssize_t count):
    """One of the items that there have to be."""
    cdef Node node = made(UNPACKED, None, left)
    node.start, node.stop, node.is_field = place, count, left.kind == ARGUMENT
    return node


cdef Node compared(str sign, Node left, Node right):
    cdef Node node = made(COMPARE, sign, left)
    if sign not in COMPARISONS:
        return None
    node.right, node.operation = right, COMPARISONS[sign]
    return node


cdef Node binary(str sign, Node left, Node right):
    cdef Node node = made(BINARY, sign, left)
    node.right = right
    if sign == "+":
        node.binary = PyNumber_Add
    elif sign == "-":
        node.binary = PyNumber_Subtract
    elif sign == "*":
        node.binary = PyNumber_Multiply
    elif sign == "/":
        node.binary = PyNumber_TrueDivide
    elif sign == "//":
        node.binary = PyNumber_FloorDivide
    elif sign == "%":
        node.binary = PyNumber_Remainder
    elif sign == "&":
        node.binary = PyNumber_And
    elif sign == "|":
        node.binary = PyNumber_Or
    elif sign == "^":
        node.binary = PyNumber_Xor
    elif sign == "<<":
        node.binary = PyNumber_Lshift
    elif sign == ">>":
        node.binary = PyNumber_Rshift
    else:
        return None
    return node


# ---- which parts are evaluated, and how often


cdef bint are_evaluated(list unread, Node node, list done) except -1:
    """Whether each of these parts is evaluated where `node` is, or was before."""
    cdef set certain = set()
    cdef Node each
    add_certain(node, certain)
    for each in done:
        add_certain(each, certain)
    for each in unread:
        if each.kind != ARGUMENT and each.kind != CONSTANT and what_is(each) not in certain:
            return False
    return True


cdef int add_certain(Node node, set certain) except -1:
    """Add what is evaluated whenever a part is."""
    cdef Node each
    what = what_is(node)
    if what in certain:
        return 0
    certain.add(what)
    if node.left is not None:
        add_certain(node.left, certain)
    if node.right is not None and node.kind != BRANCH:
        add_certain(node.right, certain)
    if node.parts is not None:
        for each in node.parts:
            add_certain(each, certain)
    return 0


cdef object what_is(Node node):
    """What is the same for parts of which one is evaluated if the other is: the items of what is unpacked."""
    return (id(node.left), node.stop) if node.kind == UNPACKED else id(node)


cdef int keep_parts(Node root) except -1:
    """Have parts that are used more than once evaluated once; returns how many."""
    cdef dict uses = {}
    cdef int count = 0
    cdef Node node
    count_uses(root, uses)
    for node, number in uses.values():
        if number > 1 and makes_something(node):
            node.place = count if count < MAX_KEPT else -1
            count += 1
    return count


cdef int count_uses(Node node, dict uses) except -1:
    cdef Node each
    entry = uses.get(id(node))
    if entry is not None:
        entry[1] += 1
        return 0
    uses[id(node)] = [node, 1]
    for each in (node.left, node.right, node.other, *(node.parts or ())):
        if each is not None:
            count_uses(each, uses)
    return 0


cdef bint makes_something(Node node):
    """Whether a part is more than a look at something that is there."""
    if node.kind == ITEM:
        return type(node.constant) is slice
    return node.kind in (TUPLE, COMPARE, BINARY, TYPE_IS, IN)
