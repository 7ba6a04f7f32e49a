#include "go_asm.h"
#include "textflag.h"

DATA zeros<>+0(SB)/8, $0x3030303030303030
DATA zeros<>+8(SB)/8, $0x3030303030303030
GLOBL zeros<>(SB), RODATA|NOPTR, $16
DATA nines<>+0(SB)/8, $0x0909090909090909
DATA nines<>+8(SB)/8, $0x0909090909090909
GLOBL nines<>(SB), RODATA|NOPTR, $16
DATA spaces<>+0(SB)/8, $0x2020202020202020
DATA spaces<>+8(SB)/8, $0x2020202020202020
GLOBL spaces<>(SB), RODATA|NOPTR, $16
DATA slashes<>+0(SB)/8, $0x5c5c5c5c5c5c5c5c
DATA slashes<>+8(SB)/8, $0x5c5c5c5c5c5c5c5c
GLOBL slashes<>(SB), RODATA|NOPTR, $16

// SKIP goes over white space and leaves the byte behind it in AX. It goes to out where
// it comes beyond the limit, or to another control character.
#define SKIP(again, run, ready, out) \
again:                         \
	CMPQ      SI, R9;          \
	JHI       out;             \
	MOVBLZX   (SI), AX;        \
	CMPL      AX, $32;         \
	JHI       ready;           \
	JEQ       run;             \
	MOVL      $0x2600, CX;     \
	BTL       AX, CX;          \
	JCC       out;             \
	INCQ      SI;              \
	JMP       again;           \
run:                           \
	VPCMPEQB  (SI), X12, X0;   \
	VPMOVMSKB X0, CX;          \
	NOTL      CX;              \
	TZCNTL    CX, CX;          \
	ADDQ      CX, SI;          \
	JMP       again;           \
ready:

// ROOM sets R10 to where the 33rd name of an object goes whose first goes to CX, or to
// the end of names.
#define ROOM(CX) \
	LEAQ    (const_smallObject*name__size)(CX), R10; \
	MOVQ    room+48(FP), DX;                         \
	SHLQ    $4, DX;                                  \
	ADDQ    names+40(FP), DX;                        \
	CMPQ    R10, DX;                                 \
	CMOVQHI DX, R10

// FIRST sets CX to the first name of the current container.
#define FIRST \
	MOVQ frame_first(R11), CX; \
	SHLQ $4, CX;               \
	ADDQ names+40(FP), CX

// func usual(p *progress, next state, doc *byte, limit int, pairs *uint32, names *name, room int, frames *frame, deepest, tables int, escapes bool) state
//
//	SI  next byte                       R11 frame of the current container
//	R8  doc                             R12 its seen
//	R9  last place to begin a token     R15 1 if it is an array
//	BX  next pair                       R14 hashMul
//	DI  where the next name goes        R10 from here on the caller adds names
TEXT ·usual(SB), NOSPLIT, $0-96
	MOVQ    p+0(FP), AX
	MOVQ    doc+16(FP), R8
	MOVQ    R8, R9
	ADDQ    limit+24(FP), R9
	MOVQ    R8, SI
	ADDQ    progress_i(AX), SI
	MOVQ    progress_q(AX), CX
	MOVQ    pairs+32(FP), BX
	LEAQ    (BX)(CX*4), BX
	MOVQ    progress_n(AX), DI
	SHLQ    $4, DI
	ADDQ    names+40(FP), DI
	MOVQ    progress_depth(AX), R11
	SHLQ    $5, R11
	ADDQ    frames+56(FP), R11
	MOVQ    frame_seen(R11), R12
	MOVBLZX frame_array(R11), R15
	MOVQ    ·hashMul(SB), R14
	VMOVDQU zeros<>(SB), X10
	VMOVDQU nines<>(SB), X11
	VMOVDQU spaces<>(SB), X12
	FIRST
	ROOM(CX)
	MOVQ    next+8(FP), AX
	CMPQ    AX, $const_atDone
	JEQ     done
	CMPQ    AX, $const_atValue
	JEQ     toValue
	CMPQ    AX, $const_atMember
	JEQ     toMember
	CMPQ    AX, $const_atObject
	JEQ     toObject
	CMPQ    AX, $const_atArray
	JEQ     toArray
	JMP     leave

toMember:
	SKIP(memberSpace, memberSpaces, memberReady, leaveMember)
	CMPL AX, $'"'
	JNE  leaveMember

	// A name begins at SI.
member:
	MOVL (BX), AX
	MOVL 4(BX), R13
	ADDQ R8, AX
	ADDQ R8, R13                // its end
	CMPQ AX, SI
	JNE  leaveMember
	CMPQ R13, R9
	JHI  leaveMember
	CMPB 1(R13), $':'
	JNE  leaveMember
	CMPQ DI, R10
	JCC  leaveMember
	MOVQ R13, CX
	SUBQ SI, CX
	DECQ CX
	CMPB escapes+80(FP), $0
	JNE  escaped

named:
	INCQ SI
	SUBQ R8, AX
	INCL AX
	MOVL AX, name_offset(DI)
	MOVL CX, name_length(DI)
	MOVQ ·hashSeed(SB), AX

hash:
	CMPQ CX, $8
	JLT  rest
	XORQ (SI), AX
	MULQ R14
	XORQ DX, AX
	ADDQ $8, SI
	SUBQ $8, CX
	JMP  hash

rest:
	MOVQ  (SI), DX
	LEAL  (CX*8), SI
	BZHIQ SI, DX, DX
	SHLQ  $56, CX
	ORQ   CX, DX
	XORQ  DX, AX
	MULQ  R14
	XORQ  DX, AX
	MOVQ  AX, name_hash(DI)
	SHRQ  $58, AX
	BTSQ  AX, R12
	JCS   compare

distinct:
	ADDQ $name__size, DI
	ADDQ $8, BX
	LEAQ 2(R13), SI

	// A value begins at SI, which is at most 2 bytes behind R9.
value:
	MOVBLZX (SI), AX
	CMPL    AX, $'"'
	JNE     number
	MOVL    (BX), CX
	ADDQ    R8, CX
	CMPQ    CX, SI
	JNE     leaveValue
	MOVL    4(BX), SI
	LEAQ    1(R8)(SI*1), SI
	ADDQ    $8, BX

	// A value ends before SI.
done:
	CMPQ    SI, R9
	JHI     leaveDone
	TESTL   R15, R15
	JNZ     arrayDone
	MOVWLZX (SI), AX
	CMPL    AX, $0x222c         // a comma and a quote
	JNE     objectDone
	INCQ    SI
	JMP     member

objectDone:
	CMPB AL, $'}'
	JEQ  close
	CMPB AL, $','
	JNE  doneSpace
	INCQ SI
	JMP  toMember

arrayDone:
	MOVBLZX (SI), AX
	CMPL    AX, $']'
	JEQ     close
	CMPL    AX, $','
	JNE     doneSpace
	INCQ    SI
	JMP     value

	SKIP(doneSpace, doneSpaces, doneReady, leaveDone)
	TESTL R15, R15
	JNZ   arrayReady
	CMPL  AX, $'}'
	JEQ   close
	CMPL  AX, $','
	JNE   leaveDone
	INCQ  SI
	JMP   toMember

arrayReady:
	CMPL AX, $']'
	JEQ  close
	CMPL AX, $','
	JNE  leaveDone
	INCQ SI

toValue:
	SKIP(valueSpace, valueSpaces, valueReady, leaveValue)
	JMP value

number:
	MOVQ SI, R13
	CMPL AX, $'-'
	JNE  digits
	INCQ R13
	JMP  digit

digits:
	LEAL -'0'(AX), CX
	CMPL CX, $10
	JCC  other

digit:
	VMOVDQU   (R13), X0
	VPSUBB    X10, X0, X0
	VPMINUB   X0, X11, X1
	VPCMPEQB  X0, X1, X1
	VPMOVMSKB X1, CX
	NOTL      CX                // a bit for each byte that is no digit
	TZCNTL    CX, DX
	CMPL      DX, $16
	JCC       leaveValue
	CMPL      DX, $1
	JLS       oneDigit
	CMPB      (R13), $'0'
	JEQ       leaveValue

integer:
	MOVBLZX (R13)(DX*1), AX
	CMPL    AX, $'.'
	JNE     numberEnd
	LEAL    1(DX), AX
	BLSRL   CX, CX
	TZCNTL  CX, DX
	CMPL    DX, AX
	JEQ     leaveValue          // no digit behind the point
	CMPL    DX, $16
	JCC     leaveValue
	MOVBLZX (R13)(DX*1), AX

numberEnd:
	ORL  $0x20, AX
	CMPL AX, $'e'
	JEQ  leaveValue
	LEAQ (R13)(DX*1), SI
	JMP  done

oneDigit:
	TESTL DX, DX
	JNZ   integer
	JMP   leaveValue

other:
	CMPL AX, $'{'
	JEQ  open
	CMPL AX, $'['
	JEQ  open
	CMPL AX, $32
	JLS  toValue
	MOVL (SI), AX
	CMPL AX, $0x65757274        // true
	JEQ  four
	CMPL AX, $0x6c6c756e        // null
	JEQ  four
	CMPL AX, $0x736c6166        // fals
	JNE  leaveValue
	CMPB 4(SI), $'e'
	JNE  leaveValue
	INCQ SI

four:
	ADDQ $4, SI
	JMP  done

	// A container begins at SI.
open:
	CMPQ  SI, R9
	JHI   leaveValue
	MOVQ  deepest+64(FP), CX
	SHLQ  $5, CX
	ADDQ  frames+56(FP), CX
	CMPQ  R11, CX
	JCC   leaveValue
	MOVQ  R12, frame_seen(R11)
	ADDQ  $frame__size, R11
	XORL  R12, R12
	MOVQ  DI, CX
	SUBQ  names+40(FP), CX
	SHRQ  $4, CX
	MOVQ  CX, frame_first(R11)
	MOVQ  tables+72(FP), CX
	MOVQ  CX, frame_table(R11)
	MOVL  $const_offPath, frame_place(R11)
	XORL  R15, R15
	CMPL  AX, $'['
	SETEQ R15
	MOVB  R15, frame_array(R11)
	ROOM(DI)
	INCQ  SI
	TESTL R15, R15
	JNZ   toArray

toObject:
	MOVBLZX (SI), AX
	CMPL    AX, $'"'
	JEQ     member
	SKIP(objectSpace, objectSpaces, objectReady, leaveObject)
	CMPL    AX, $'"'
	JEQ     member
	CMPL    AX, $'}'
	JEQ     close
	JMP     leaveObject

toArray:
	SKIP(arraySpace, arraySpaces, elementReady, leaveArray)
	CMPL AX, $']'
	JNE  value

	// The closing bracket of the current container is at SI.
close:
	FIRST
	LEAQ    (const_smallObject*name__size)(CX), DX
	CMPQ    DI, DX
	JHI     leaveClose
	CMPQ    R11, frames+56(FP)
	JEQ     leaveClose
	MOVQ    CX, DI
	SUBQ    $frame__size, R11
	MOVQ    frame_seen(R11), R12
	MOVBLZX frame_array(R11), R15
	FIRST
	ROOM(CX)
	INCQ    SI
	JMP     done

	// The name at SI, of CX bytes, may have escapes.
escaped:
	CMPQ      CX, $16
	JHI       leaveMember
	VMOVDQU   slashes<>(SB), X1
	VPCMPEQB  1(SI), X1, X0
	VPMOVMSKB X0, DX
	BZHIL     CX, DX, DX
	TESTL     DX, DX
	JZ        named
	JMP       leaveMember

	// The hash of a name, in DI, has the same upper bits as that of another one.
compare:
	FIRST
	MOVQ name_hash(DI), AX

compareNext:
	CMPQ CX, DI
	JEQ  distinct
	CMPQ AX, name_hash(CX)
	JEQ  leaveFlaw
	ADDQ $name__size, CX
	JMP  compareNext

leaveMember:
	MOVL $const_atMember, AX
	JMP  leave

leaveValue:
	MOVL $const_atValue, AX
	JMP  leave

leaveDone:
	MOVL $const_atDone, AX
	JMP  leave

leaveObject:
	MOVL $const_atObject, AX
	JMP  leave

leaveArray:
	MOVL $const_atArray, AX
	JMP  leave

leaveClose:
	MOVL $const_atClose, AX
	JMP  leave

leaveFlaw:
	MOVL $const_atFlaw, AX

leave:
	MOVQ p+0(FP), CX
	SUBQ R8, SI
	MOVQ SI, progress_i(CX)
	SUBQ pairs+32(FP), BX
	SHRQ $2, BX
	MOVQ BX, progress_q(CX)
	SUBQ names+40(FP), DI
	SHRQ $4, DI
	MOVQ DI, progress_n(CX)
	MOVQ R12, frame_seen(R11)
	SUBQ frames+56(FP), R11
	SHRQ $5, R11
	MOVQ R11, progress_depth(CX)
	MOVQ AX, ret+88(FP)
	RET
