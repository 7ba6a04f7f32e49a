#include "go_asm.h"
#include "textflag.h"

// Bits of carry.
#define carryEscape 1 // the first byte of the next block is escaped
#define carryUTF8 2   // the last byte of this block is not ASCII

// MASK makes a bit of each byte of V4 to V7 that is FF, less the R8 lowest.
#define MASK(to) \
	VAND  V18.B16, V4.B16, V4.B16; \
	VAND  V18.B16, V5.B16, V5.B16; \
	VAND  V18.B16, V6.B16, V6.B16; \
	VAND  V18.B16, V7.B16, V7.B16; \
	VADDP V5.B16, V4.B16, V4.B16;  \
	VADDP V7.B16, V6.B16, V6.B16;  \
	VADDP V6.B16, V4.B16, V4.B16;  \
	VADDP V4.B16, V4.B16, V4.B16;  \
	VMOV  V4.D[0], to;             \
	LSR   R8, to, to

// EQUAL sets the bytes of V4 to V7 to FF where those of V0 to V3 equal the byte of V.
#define EQUAL(V) \
	VCMEQ V.B16, V0.B16, V4.B16; \
	VCMEQ V.B16, V1.B16, V5.B16; \
	VCMEQ V.B16, V2.B16, V6.B16; \
	VCMEQ V.B16, V3.B16, V7.B16

// UNUSUAL sets the high bits of V6 where the bytes of V are backslashes, control
// characters or not ASCII.
#define UNUSUAL(V) \
	VCMEQ V17.B16, V.B16, V4.B16;  \
	VUSHR $5, V.B16, V5.B16;       \
	VCMEQ V27.B16, V5.B16, V5.B16; \
	VORR  V4.B16, V6.B16, V6.B16;  \
	VORR  V5.B16, V6.B16, V6.B16;  \
	VORR  V.B16, V6.B16, V6.B16

// UTF8 sets bits in V9 where the 16 bytes of cur, which follow on those of prev, are no
// UTF-8.
#define UTF8(cur, prev) \
	VEXT  $15, cur.B16, prev.B16, V5.B16; \
	VUSHR $4, V5.B16, V6.B16;             \
	VTBL  V6.B16, [V20.B16], V6.B16;      \
	VAND  V23.B16, V5.B16, V5.B16;        \
	VTBL  V5.B16, [V21.B16], V5.B16;      \
	VAND  V5.B16, V6.B16, V6.B16;         \
	VUSHR $4, cur.B16, V5.B16;            \
	VTBL  V5.B16, [V22.B16], V5.B16;      \
	VAND  V5.B16, V6.B16, V6.B16;         \
	VEXT  $14, cur.B16, prev.B16, V5.B16; \
	VUMAX V24.B16, V5.B16, V7.B16;        \
	VCMEQ V5.B16, V7.B16, V5.B16;         \
	VEXT  $13, cur.B16, prev.B16, V7.B16; \
	VUMAX V25.B16, V7.B16, V8.B16;        \
	VCMEQ V7.B16, V8.B16, V7.B16;         \
	VORR  V7.B16, V5.B16, V5.B16;         \
	VAND  V26.B16, V5.B16, V5.B16;        \
	VEOR  V5.B16, V6.B16, V6.B16;         \
	VORR  V6.B16, V9.B16, V9.B16

// func find(f *Finder, doc *byte, from, to int) bool
//
// It does what the one for amd64 does, in the same order.
//
//	R2 next byte                      R10 quotes of the block, a bit each
//	R1 doc                            R9  the block
//	R3 end                            R8  how many of its bytes have been looked at
//	R0 f, R4 f.Pairs                  R5  where the offset of the next quote goes
//	R6 carry                          R7  where the offset of the next escape goes
TEXT ·find(SB), NOSPLIT, $0-33
	MOVD f+0(FP), R0
	MOVD doc+8(FP), R1
	MOVD from+16(FP), R2
	MOVD to+24(FP), R3
	ADD  R1, R2, R2
	ADD  R1, R3, R3
	MOVD Finder_carry(R0), R6
	ADD  $Finder_Pairs, R0, R4
	MOVD Finder_n(R0), R5
	ADD  R5<<2, R4, R5
	MOVD $Finder_escapes, R7
	ADD  R0, R7, R7

	VMOVI $0x22, V16.B16              // quote
	VMOVI $0x5c, V17.B16              // backslash
	MOVD  $0x8040201008040201, R10
	VMOV  R10, V18.D2
	VEOR  V27.B16, V27.B16, V27.B16

next:
	SUB  R2, R3, R10
	CMP  $0, R10
	BLE  done
	MOVD R2, R9
	MOVD $0, R8
	CMP  $64, R10
	BGE  block
	SUB  $64, R3, R9
	MOVD $64, R8
	SUB  R10, R8, R8

block:
	VLD1 (R9), [V0.B16, V1.B16, V2.B16, V3.B16]
	EQUAL(V16)
	MASK(R10)
	VEOR V6.B16, V6.B16, V6.B16
	UNUSUAL(V0)
	UNUSUAL(V1)
	UNUSUAL(V2)
	UNUSUAL(V3)
	VMOV V6.D[0], R11
	VMOV V6.D[1], R12
	ORR  R12, R11, R11
	AND  $0x8080808080808080, R11, R11
	ORR  R6, R11, R11
	CBNZ R11, special

offsets:
	SUB  R1, R2, R12
	ADD  $64, R2, R2
	CBZ  R10, next
	RBIT R10, R10
	MOVD $0x8000000000000000, R13

offset:
	CLZ    R10, R11
	LSR    R11, R13, R14
	BIC    R14, R10, R10
	ADD    R12, R11, R11
	MOVW.P R11, 4(R5)
	CBNZ   R10, offset
	B      next

	// The block has an escape, a control character or one that is not ASCII, or the one
	// before it ends in one.
special:
	EQUAL(V17)
	MASK(R11)
	AND $carryEscape, R6, R12
	BIC R12, R10, R10
	BIC R12, R11, R11
	AND $carryUTF8, R6, R6
	CBZ R11, controls

escape:
	RBIT   R11, R12
	CLZ    R12, R12
	SUB    R1, R2, R13
	ADD    R12, R13, R13
	MOVW.P R13, 4(R7)
	MOVD   $3, R14          // the backslash and the byte that it escapes
	LSL    R12, R14, R14
	BIC    R14, R10, R10
	BIC    R14, R11, R11
	ADD    $1, R12, R12
	LSR    $6, R12, R12     // 1 if it escapes the first byte of the next block
	ORR    R12, R6, R6
	CBNZ   R11, escape

controls:
	VUSHR $5, V0.B16, V4.B16
	VUSHR $5, V1.B16, V5.B16
	VUSHR $5, V2.B16, V6.B16
	VUSHR $5, V3.B16, V7.B16
	VCMEQ V27.B16, V4.B16, V4.B16
	VCMEQ V27.B16, V5.B16, V5.B16
	VCMEQ V27.B16, V6.B16, V6.B16
	VCMEQ V27.B16, V7.B16, V7.B16
	MASK(R11)
	CBZ   R11, utf8

	// A byte is in a string if an odd number of quotes is before it.
	EOR  R10<<1, R10, R12
	EOR  R12<<2, R12, R12
	EOR  R12<<4, R12, R12
	EOR  R12<<8, R12, R12
	EOR  R12<<16, R12, R12
	EOR  R12<<32, R12, R12
	SUB  R4, R5, R13
	UBFX $2, R13, $1, R13
	NEG  R13, R13
	EOR  R13, R12, R12
	AND  R12, R11, R11
	CBNZ R11, flaw

utf8:
	VORR V0.B16, V1.B16, V4.B16
	VORR V2.B16, V3.B16, V5.B16
	VORR V4.B16, V5.B16, V4.B16
	VMOV V4.D[0], R11
	VMOV V4.D[1], R12
	ORR  R12, R11, R11
	AND  $0x8080808080808080, R11, R11
	AND  $carryUTF8, R6, R12
	ORR  R12, R11, R11
	CBZ  R11, offsets
	AND  $carryEscape, R6, R6
	VMOV V3.D[1], R11
	LSR  $63, R11, R11
	ADD  R11<<1, R6, R6     // carryUTF8
	VEOR V10.B16, V10.B16, V10.B16
	CMP  R1, R9
	BEQ  first
	SUB  $16, R9, R11
	VLD1 (R11), [V10.B16]

	// The tables, as in the code for amd64.
first:
	MOVD  $0x0202020202020202, R11
	VMOV  R11, V20.D[0]
	MOVD  $0x4915012180808080, R11
	VMOV  R11, V20.D[1]
	MOVD  $0xcbcbcb8b8383a3e7, R11
	VMOV  R11, V21.D[0]
	MOVD  $0xcbcbdbcbcbcbcbcb, R11
	VMOV  R11, V21.D[1]
	MOVD  $0x0101010101010101, R11
	VMOV  R11, V22.D[0]
	MOVD  $0x01010101babaaee6, R11
	VMOV  R11, V22.D[1]
	VMOVI $0x0f, V23.B16
	VMOVI $0xe0, V24.B16            // begins three bytes or more
	VMOVI $0xf0, V25.B16            // begins four
	VMOVI $0x80, V26.B16
	VEOR  V9.B16, V9.B16, V9.B16
	UTF8(V0, V10)
	UTF8(V1, V0)
	UTF8(V2, V1)
	UTF8(V3, V2)
	VMOV  V9.D[0], R11
	VMOV  V9.D[1], R12
	ORR   R12, R11, R11
	CBZ   R11, offsets

flaw:
	MOVB ZR, ret+32(FP)
	RET

done:
	SUB  R4, R5, R5
	LSR  $2, R5, R5
	MOVD R5, Finder_n(R0)
	MOVD R6, Finder_carry(R0)
	MOVD $Finder_escapes, R10
	ADD  R0, R10, R10
	SUB  R10, R7, R7
	LSR  $2, R7, R7
	MOVD R7, Finder_escaped(R0)
	MOVD $1, R10
	MOVB R10, ret+32(FP)
	RET
