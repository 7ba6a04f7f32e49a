#include "go_asm.h"
#include "textflag.h"

// Bits of carry.
#define carryEscape 1 // the first byte of the next block is escaped
#define carryUTF8 2   // there was a byte that is not ASCII

// The tables of the check of UTF-8, each twice, for both halves of a register. A bit
// stands for an error, which is there if all three tables have it:
//
//	01  no continuation after a byte that begins a character
//	02  a continuation after ASCII
//	04  three bytes for less than U+0800
//	08  more than U+10FFFF, F4 90 and up
//	10  half of a surrogate pair
//	20  two bytes for less than U+0080
//	40  four bytes for less than U+10000; F5 and up, of which the second is 8x
//	80  two continuations, which third and fourth bytes must be

// By the high half of a byte.
DATA first<>+0(SB)/8, $0x0202020202020202
DATA first<>+8(SB)/8, $0x4915012180808080
DATA first<>+16(SB)/8, $0x0202020202020202
DATA first<>+24(SB)/8, $0x4915012180808080
GLOBL first<>(SB), RODATA|NOPTR, $32

// By the low half of that byte.
DATA low<>+0(SB)/8, $0xcbcbcb8b8383a3e7
DATA low<>+8(SB)/8, $0xcbcbdbcbcbcbcbcb
DATA low<>+16(SB)/8, $0xcbcbcb8b8383a3e7
DATA low<>+24(SB)/8, $0xcbcbdbcbcbcbcbcb
GLOBL low<>(SB), RODATA|NOPTR, $32

// By the high half of the byte after it.
DATA second<>+0(SB)/8, $0x0101010101010101
DATA second<>+8(SB)/8, $0x01010101babaaee6
DATA second<>+16(SB)/8, $0x0101010101010101
DATA second<>+24(SB)/8, $0x01010101babaaee6
GLOBL second<>(SB), RODATA|NOPTR, $32

// CONST makes 32 times the same byte.
#define CONST(name, eight) \
	DATA name+0(SB)/8, eight;  \
	DATA name+8(SB)/8, eight;  \
	DATA name+16(SB)/8, eight; \
	DATA name+24(SB)/8, eight; \
	GLOBL name(SB), RODATA|NOPTR, $32

CONST(quote<>, $0x2222222222222222)
CONST(backslash<>, $0x5c5c5c5c5c5c5c5c)
CONST(control<>, $0x1f1f1f1f1f1f1f1f)
CONST(half<>, $0x0f0f0f0f0f0f0f0f)
CONST(third<>, $0x6060606060606060)  // e0, which begins three bytes or more, less 80
CONST(fourth<>, $0x7070707070707070) // f0, which begins four, less 80
CONST(high<>, $0x8080808080808080)

// MASK makes a bit of each byte of Y2 and Y3 that is FF, less the CX lowest.
#define MASK(to, temp) \
	VPMOVMSKB Y2, to;    \
	VPMOVMSKB Y3, temp;  \
	SHLQ      $32, temp; \
	ORQ       temp, to;  \
	SHRXQ     CX, to, to

// UTF8 sets bits in Y7 where the 32 bytes of cur, which follow on those of prev, are no
// UTF-8.
#define UTF8(cur, prev) \
	VPERM2I128 $0x21, cur, prev, Y5;    \
	VPALIGNR   $15, Y5, cur, Y6;        \
	VPSRLW     $4, Y6, Y7;              \
	VPAND      Y13, Y7, Y7;             \
	VPSHUFB    Y7, Y14, Y7;             \
	VPAND      Y13, Y6, Y6;             \
	VPSHUFB    Y6, Y15, Y6;             \
	VPAND      Y6, Y7, Y7;              \
	VPSRLW     $4, cur, Y6;             \
	VPAND      Y13, Y6, Y6;             \
	VPSHUFB    Y6, Y8, Y6;              \
	VPAND      Y6, Y7, Y7;              \
	VPALIGNR   $14, Y5, cur, Y6;        \
	VPSUBUSB   third<>(SB), Y6, Y6;     \
	VPALIGNR   $13, Y5, cur, Y5;        \
	VPSUBUSB   fourth<>(SB), Y5, Y5;    \
	VPOR       Y5, Y6, Y6;              \
	VPAND      high<>(SB), Y6, Y6;      \
	VPXOR      Y6, Y7, Y7

// PREFIX adds to DX, by XOR, itself n bits up.
#define PREFIX(n) \
	MOVQ DX, R14; \
	SHLQ n, R14;  \
	XORQ R14, DX

// OFFSET writes the offset of the lowest quote of AX and takes it out.
#define OFFSET(at) \
	TZCNTQ AX, R15;      \
	ADDL   DX, R15;      \
	MOVL   R15, at(R11); \
	BLSRQ  AX, AX

#define OFFSETS(at) \
	OFFSET(at);    \
	OFFSET(at+4);  \
	OFFSET(at+8);  \
	OFFSET(at+12); \
	OFFSET(at+16); \
	OFFSET(at+20); \
	OFFSET(at+24); \
	OFFSET(at+28)

// func find(f *Finder, doc *byte, from, to int) bool
//
// Most blocks of 64 bytes have no backslashes and control characters: of these only the
// quotes are found. From the first block on that is not ASCII all are checked to be UTF-8,
// for whether a block is could not be predicted. The last block of a text overlaps the one
// before it; its bits are shifted, so that the lowest is of the first byte that has not been
// looked at.
//
//	SI  next byte                     AX  quotes of the block, a bit each
//	R8  doc                           BX  the block
//	R9  end                           CX  how many of its bytes have been looked at
//	R10 quotes found                  R11 where the offset of the next quote goes
//	R12 carry                         R13 where the offset of the next escape goes
TEXT ·find(SB), NOSPLIT, $0-33
	MOVQ    f+0(FP), DI
	MOVQ    doc+8(FP), R8
	MOVQ    from+16(FP), SI
	MOVQ    to+24(FP), R9
	ADDQ    R8, SI
	ADDQ    R8, R9
	MOVQ    Finder_n(DI), R10
	MOVQ    Finder_carry(DI), R12
	LEAQ    Finder_Pairs(DI)(R10*4), R11
	LEAQ    Finder_escapes(DI), R13
	VMOVDQU quote<>(SB), Y10
	VMOVDQU backslash<>(SB), Y11
	VMOVDQU control<>(SB), Y12
	VMOVDQU half<>(SB), Y13
	VMOVDQU first<>(SB), Y14
	VMOVDQU low<>(SB), Y15
	VMOVDQU second<>(SB), Y8
	VPXOR   Y9, Y9, Y9       // bytes that are not UTF-8

next:
	MOVQ R9, AX
	SUBQ SI, AX
	JLE  done
	MOVQ SI, BX
	XORL CX, CX
	CMPQ AX, $64
	JGE  block
	LEAQ -64(R9), BX
	MOVL $64, CX
	SUBL AX, CX

block:
	VMOVDQU   (BX), Y0
	VMOVDQU   32(BX), Y1
	VPCMPEQB  Y0, Y10, Y2
	VPCMPEQB  Y1, Y10, Y3
	MASK(AX, DX)
	TESTL     $carryUTF8, R12
	JNZ       utf8
	VPOR      Y0, Y1, Y4
	VPMOVMSKB Y4, DX
	TESTL     DX, DX
	JNZ       notASCII

	// Backslashes and control characters.
usual:
	VPCMPEQB  Y0, Y11, Y4
	VPMINUB   Y0, Y12, Y5
	VPCMPEQB  Y0, Y5, Y5
	VPOR      Y4, Y5, Y4
	VPCMPEQB  Y1, Y11, Y6
	VPMINUB   Y1, Y12, Y5
	VPCMPEQB  Y1, Y5, Y5
	VPOR      Y6, Y5, Y6
	VPOR      Y6, Y4, Y4
	VPMOVMSKB Y4, DX
	MOVL      R12, R14
	ANDL      $carryEscape, R14
	ORL       R14, DX
	JNZ       special

offsets:
	POPCNTQ AX, BX
	MOVQ    SI, DX
	SUBQ    R8, DX
	ADDQ    $64, SI
	ADDQ    BX, R10
	OFFSETS(0)
	OFFSETS(32)
	CMPL    BX, $16
	JLS     counted

more:
	ADDQ $32, R11
	OFFSETS(32)
	SUBL $8, BX
	CMPL BX, $16
	JHI  more

counted:
	LEAQ Finder_Pairs(DI)(R10*4), R11
	JMP  next

notASCII:
	ORL   $carryUTF8, R12
	VPXOR Y4, Y4, Y4
	CMPQ  BX, R8
	JEQ   first

utf8:
	VMOVDQU -32(BX), Y4

first:
	UTF8(Y0, Y4)
	VPOR Y7, Y9, Y9
	UTF8(Y1, Y0)
	VPOR Y7, Y9, Y9
	JMP  usual

	// The block has an escape or a control character, or the one before it ends in a
	// backslash.
special:
	VPCMPEQB Y0, Y11, Y2
	VPCMPEQB Y1, Y11, Y3
	MASK(R15, R14)
	MOVL     R12, DX
	ANDL     $carryEscape, DX
	ANDNQ    AX, DX, AX
	ANDNQ    R15, DX, R15
	ANDL     $carryUTF8, R12
	TESTQ    R15, R15
	JZ       controls

escape:
	TZCNTQ R15, DX
	MOVQ   SI, R14
	SUBQ   R8, R14
	ADDQ   DX, R14
	MOVL   R14, (R13)
	ADDQ   $4, R13
	MOVL   $3, R14       // the backslash and the byte that it escapes
	SHLXQ  DX, R14, R14
	ANDNQ  AX, R14, AX
	ANDNQ  R15, R14, R15
	INCL   DX
	SHRL   $6, DX        // 1 if it escapes the first byte of the next block
	ORL    DX, R12
	TESTQ  R15, R15
	JNZ    escape

controls:
	VPMINUB  Y0, Y12, Y2
	VPCMPEQB Y0, Y2, Y2
	VPMINUB  Y1, Y12, Y3
	VPCMPEQB Y1, Y3, Y3
	MASK(R15, R14)
	TESTQ    R15, R15
	JZ       offsets

	// A byte is in a string if an odd number of quotes is before it.
	MOVQ  AX, DX
	PREFIX($1)
	PREFIX($2)
	PREFIX($4)
	PREFIX($8)
	PREFIX($16)
	PREFIX($32)
	MOVQ  R10, R14
	ANDL  $1, R14
	NEGQ  R14
	XORQ  R14, DX
	TESTQ R15, DX
	JZ    offsets

flaw:
	MOVB $0, ret+32(FP)
	VZEROUPPER
	RET

done:
	VPTEST Y9, Y9
	JNZ    flaw
	LEAQ   Finder_escapes(DI), AX
	SUBQ   AX, R13
	SHRQ   $2, R13
	MOVQ   R10, Finder_n(DI)
	MOVQ   R12, Finder_carry(DI)
	MOVQ   R13, Finder_escaped(DI)
	MOVB   $1, ret+32(FP)
	VZEROUPPER
	RET
