#include "go_asm.h"
#include "textflag.h"

// func pairs(b *block, need int)
//
// Each pair copies 16 bytes for its literals and 64 for its match, whatever their
// lengths, so that nothing depends on those but where the next pair begins; what is
// too much the next pair overwrites. Only a pair that has more literals or a longer
// match, or none, is copied in loops. Whether a match comes from the dictionary is
// no branch either. Nothing is written before a pair has been checked, but for
// whether its literals lie within len(src): then the next pair is beyond it.
//
//	SI  next pair           R10  last place in src where a pair may begin
//	DI  next byte to make   R9   last place in dst where one may begin
//	R8  dst                 R11  last place in dst for 16 bytes
//	BX  from a place before dst to the same place of the dictionary
//	R12 where the dictionary would begin, before dst
TEXT ·pairs(SB), NOSPLIT, $0-16
	MOVQ    b+0(FP), AX
	MOVQ    block_dst(AX), R8
	MOVQ    block_src(AX), SI
	MOVQ    block_dict(AX), BX
	MOVQ    (block_dict+8)(AX), R12
	ADDQ    R12, BX
	SUBQ    R8, BX
	NEGQ    R12
	ADDQ    R8, R12

	// A pair begins in src, and 5 bytes of it and 16 literals are within its capacity.
	MOVQ    (block_src+8)(AX), R10
	DECQ    R10
	MOVQ    (block_src+16)(AX), CX
	SUBQ    $21, CX
	CMPQ    CX, R10
	CMOVQLT CX, R10

	MOVQ    (block_dst+8)(AX), R11
	SUBQ    $16, R11
	MOVQ    need+8(FP), R9
	DECQ    R9
	CMPQ    R11, R9
	CMOVQLT R11, R9
	CMPQ    R10, $0
	JLT     none
	CMPQ    R9, $0
	JLT     none
	ADDQ    SI, R10
	ADDQ    R8, R11
	ADDQ    R8, R9
	MOVQ    R8, DI
	ADDQ    block_s(AX), SI
	ADDQ    block_d(AX), DI

loop:
	CMPQ    SI, R10
	JHI     done
	CMPQ    DI, R9
	JHI     done
	MOVL    (SI), AX
	LEAQ    3(SI), R13       // literals
	MOVL    AX, CX
	ANDL    $3, CX           // their number
	MOVBLZX AX, R14
	SHRL    $2, R14
	ADDL    $2, R14          // length of the match
	CMPL    R14, $65
	JEQ     wide

checked:
	SHRL    $8, AX
	MOVWLZX AX, AX           // offset
	CMPL    AX, $16
	JCS     done
	LEAQ    (DI)(CX*1), DX   // where the match goes
	MOVQ    DX, R15
	SUBQ    AX, R15          // where it comes from
	CMPQ    R15, R12
	JCS     done             // before the dictionary
	LEAQ    (R15)(R14*1), AX
	CMPQ    R15, R8
	CMOVQCC R8, AX
	CMPQ    AX, R8
	JHI     done             // beyond the dictionary's end
	LEAQ    (R15)(BX*1), AX
	CMPQ    R15, R8
	CMOVQCS AX, R15
	LEAQ    48(DX), AX
	CMPQ    AX, R11
	JHI     short

	MOVUPS  (R13), X0
	MOVUPS  X0, (DI)
	MOVUPS  (R15), X0
	MOVUPS  X0, (DX)
	MOVUPS  16(R15), X0
	MOVUPS  X0, 16(DX)
	MOVUPS  32(R15), X0
	MOVUPS  X0, 32(DX)
	MOVUPS  48(R15), X0
	MOVUPS  X0, 48(DX)
	LEAQ    (DX)(R14*1), DI
	LEAQ    (R13)(CX*1), SI
	JMP     loop

wide:
	SHLL    $8, CX
	MOVBLZX 4(SI), R14
	ORL     CX, R14
	MOVL    AX, CX
	SHRL    $24, CX
	LEAQ    5(SI), R13
	LEAL    -1(R14), DX
	CMPL    DX, $64
	JCC     long             // no match, or over 64 bytes
	CMPL    CX, $16
	JLS     checked

	// As many times 16 bytes as the literals and the match take.
long:
	LEAQ    -5(R13)(CX*1), DX
	CMPQ    DX, R10
	JHI     done
	LEAQ    -1(DI)(CX*1), DX
	CMPQ    DX, R11
	JHI     done
	INCQ    DX               // where the match goes
	TESTL   R14, R14
	JEQ     literals
	SHRL    $8, AX
	MOVWLZX AX, AX
	CMPL    AX, $16
	JCS     done
	MOVQ    DX, R15
	SUBQ    AX, R15
	CMPQ    R15, R12
	JCS     done
	LEAQ    (R15)(R14*1), AX
	CMPQ    R15, R8
	CMOVQCC R8, AX
	CMPQ    AX, R8
	JHI     done
	LEAQ    (R15)(BX*1), AX
	CMPQ    R15, R8
	CMOVQCS AX, R15
	LEAQ    -1(DX)(R14*1), AX
	CMPQ    AX, R11
	JHI     done

literals:
	LEAQ    (R13)(CX*1), SI
	CMPQ    DI, DX
	JCC     match

literal:
	MOVUPS  (R13), X0
	MOVUPS  X0, (DI)
	ADDQ    $16, R13
	ADDQ    $16, DI
	CMPQ    DI, DX
	JCS     literal

match:
	LEAQ    (DX)(R14*1), DI
	CMPQ    DX, DI
	JCS     piece
	JMP     loop

	// Near the end of dst only as many times 16 bytes as the match takes.
short:
	LEAQ    -1(DX)(R14*1), AX
	CMPQ    AX, R11
	JHI     done
	MOVUPS  (R13), X0
	MOVUPS  X0, (DI)
	LEAQ    (DX)(R14*1), DI
	LEAQ    (R13)(CX*1), SI

piece:
	MOVUPS  (R15), X0
	MOVUPS  X0, (DX)
	ADDQ    $16, R15
	ADDQ    $16, DX
	CMPQ    DX, DI
	JCS     piece
	JMP     loop

done:
	MOVQ    b+0(FP), AX
	SUBQ    block_src(AX), SI
	SUBQ    R8, DI
	MOVQ    SI, block_s(AX)
	MOVQ    DI, block_d(AX)

none:
	RET
